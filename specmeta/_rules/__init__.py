"""The rules between fields: name, family, purpose, public reports and remedy, in one registry.

The name is the ``type`` of the pydantic error that a violation raises, and stays the same between
releases. Rules that concern one field alone (a bound, a type) are in its annotation and carry
pydantic's own names.
"""

from collections.abc import Mapping
from types import MappingProxyType

from . import _arguments, _checkpoints, _deployments, _drafters, _rows, _steps
from ._arguments import *  # noqa: F403 - every rule, under one name
from ._checkpoints import *  # noqa: F403
from ._deployments import *  # noqa: F403
from ._drafters import *  # noqa: F403
from ._rows import *  # noqa: F403
from ._rule import FAMILIES as FAMILIES
from ._rule import Family as Family
from ._rule import Rule as Rule
from ._steps import *  # noqa: F403

RULES: Mapping[str, Rule] = MappingProxyType(
    {
        rule.name: rule
        for module in (_rows, _steps, _drafters, _deployments, _checkpoints, _arguments)
        for rule in vars(module).values()
        if isinstance(rule, Rule)
    }
)
