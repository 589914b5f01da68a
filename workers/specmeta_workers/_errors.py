"""Errors of the workers. Each is raised before any state changes."""

from __future__ import annotations


class SlotError(Exception):
    """A slot operation that the pool refused."""


class SlotPoolExhaustedError(SlotError, RuntimeError):
    """More live requests than slots."""


class UnknownRequestError(SlotError, LookupError):
    """A request id that owns no slot."""


class RequestAlreadyAssignedError(SlotError, ValueError):
    """A second slot asked for a request that owns one."""


class StaleSlotError(SlotError, RuntimeError):
    """A handle whose slot has changed hands since."""


class ContextGapError(ValueError):
    """A context chunk that does not continue where the request's window ends."""
