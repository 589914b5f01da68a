"""Between an executor and its prefix cache: what goes in, and where a hit goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ._step_batch import KnownStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from specmeta import Deployment, RequestId

    from ._prefix_cache import PrefixCache
    from ._requests import RequestState
    from ._step_batch import Chunk
    from ._target import TargetRunner


class PrefixStore:
    """Moves prompts between the slots of a target and a cache.

    Raises:
        ValueError: the cache holds what another target or deployment computed.

    """

    def __init__(self, cache: PrefixCache, deployment: Deployment, target: TargetRunner) -> None:
        cache.bind(deployment, target)
        self._cache = cache
        self._window = deployment.window_size
        self._store = target.store
        # States of the prompts on their way, chunk by chunk.
        self._captured: dict[RequestId, list[Tensor]] = {}

    def install(self, states: Sequence[RequestState]) -> list[KnownStates]:
        """Put what is kept of these sequences into their slots; the states for the worker.

        The last position before a request decodes is always left to compute: only a forward gives
        the token behind it.
        """
        known = []
        for state in states:
            blocks = self._cache.find(state.known(0, state.context_length - 1))
            if not blocks:
                continue
            keys = torch.cat([block.keys for block in blocks], dim=2)
            values = torch.cat([block.values for block in blocks], dim=2)
            self._store.install(state.slot, keys, values)
            captured = torch.cat([block.captured for block in blocks])[-self._window :]
            known.append(KnownStates(state, keys.shape[2] - len(captured), captured))
        return known

    def collect(self, chunks: Sequence[Chunk], captured: Tensor) -> None:
        """Remember the states of a step's context rows, which come first in `captured`."""
        first = 0
        for chunk in chunks:
            states = captured[first : first + chunk.length].clone()
            self._captured.setdefault(chunk.state.request.request_id, []).append(states)
            first += chunk.length

    def keep(self, state: RequestState) -> None:
        """Put a prompt that has just been completed into the cache."""
        collected = self._captured.pop(state.request.request_id, None)
        if collected is None:  # computed again after a preemption
            return
        prompt, slot = state.request.prompt_token_ids, state.slot
        captured = torch.cat(collected)
        start = len(prompt) - len(captured)
        length = len(prompt)
        keys = self._store.keys[:, slot, :, :length]
        values = self._store.values[:, slot, :, :length]
        self._cache.add(prompt, keys, values, captured, start)

    def forget(self, state: RequestState) -> None:
        """Drop what was remembered of a request that leaves its slot."""
        self._captured.pop(state.request.request_id, None)
