"""Help pages without a type beside options that take no value."""

from typing import TYPE_CHECKING

import typer
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
    """A command whose `--help` is shown as a flag, and whose options of one value are given once:
    of two, one would be believed and the other forgotten.
    """

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """As ever, once each option is known to be given once."""
        _, _, order = self.make_parser(ctx).parse_args(args=[*args])
        for param in order:
            single = isinstance(param, TyperOption) and not (param.multiple or param.is_flag)
            if single and order.count(param) > 1:
                told = f"{param.opts[0]} is given twice; give it once"
                raise typer.BadParameter(told, ctx=ctx)
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: "Context") -> TyperOption | None:
        """As ever, but a flag."""
        return _flag(super().get_help_option(ctx))


class Group(TyperGroup):
    """A group whose `--help` is shown as a flag."""

    def get_help_option(self, ctx: "Context") -> TyperOption | None:
        """As ever, but a flag."""
        return _flag(super().get_help_option(ctx))
