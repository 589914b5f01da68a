"""Help pages without a type beside options that take no value."""

from typing import TYPE_CHECKING

from typer.core import TyperCommand, TyperGroup, TyperOption

if TYPE_CHECKING:
    from typer._click.core import Context

NO_VALUE = ""
"""`metavar` of a flag: typer would print `<bool>`, which reads as if it took a value."""


def _flag(option: TyperOption | None) -> TyperOption | None:
    if option is not None:
        option.metavar = NO_VALUE
    return option


class Command(TyperCommand):
    """A command whose `--help` is shown as a flag."""

    def get_help_option(self, ctx: "Context") -> TyperOption | None:
        """As ever, but a flag."""
        return _flag(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group whose `--help` is shown as a flag."""

    def get_help_option(self, ctx: "Context") -> TyperOption | None:
        """As ever, but a flag."""
        return _flag(super().get_help_option(ctx))
