"""What `specmeta bench` runs on: models, prompts and processes, as the options name them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specmeta import DecodingType
from specmeta_workers import (
    Pair,
    default_engine,
    load_bundled_pairs,
    load_pair,
    read_drafter_config,
)
from specmeta_workers import bench as benching
from specmeta_workers.distributed import LONGEST_TIMEOUT, Roles


@dataclass(frozen=True)
class Source:
    """Where the models and the prompts come from; None stands for what is bundled."""

    target: Path | None
    drafter: Path | None
    prompts: Path | None
    dtype: str
    decoding_types: tuple[str, ...] | None
    stated: dict[str, object]
    """Facts that no file of the drafter states."""

    def types(self) -> tuple[str, ...]:
        """The decoding types to measure.

        Raises:
            ValueError: a target without a drafter or the reverse, facts of no drafter, a drafter
                that cannot be read, or types that it is not of.

        """
        if (self.target is None) != (self.drafter is None):
            raise ValueError("--target and --drafter belong together; give both or neither")
        if self.drafter is None:
            if self.stated:
                raise ValueError(
                    f"--state: {', '.join(self.stated)} without --drafter; the bundled drafters "
                    "state everything"
                )
            every = benching.AcceptLengthOptions().decoding_types
            return every if self.decoding_types is None else self.decoding_types
        found = (read_drafter_config(self.drafter, stated=self.stated).decoding_type,)
        if self.decoding_types is not None and self.decoding_types != found:
            raise ValueError(
                f"--decoding-type: {', '.join(self.decoding_types)}, but {self.drafter} holds a "
                f"drafter for {found[0]}; leave the option out"
            )
        return found

    def load(self, types: tuple[DecodingType, ...]) -> tuple[Pair, ...]:
        """One pair a type, all on one target; raises as `load_pair`."""
        dtype: Any = self.dtype  # the engine's config knows the names
        engine = default_engine(dtype)
        if self.target is not None and self.drafter is not None:
            pair = load_pair(
                self.target, self.drafter, prompts=self.prompts, engine=engine, stated=self.stated
            )
            return (pair,)
        pairs = load_bundled_pairs(types, engine=engine)
        if self.prompts is not None:
            pairs = tuple(pair.with_prompts(self.prompts) for pair in pairs)
        return pairs


@dataclass(frozen=True)
class Ranks:
    """The processes of `--launch torchrun`."""

    roles: Roles
    timeout: float

    @classmethod
    def of(
        cls,
        launch: str | None,
        context_ranks: int | None,
        generation_ranks: int | None,
        timeout: float | None,
    ) -> "Ranks | None":
        """What the options say; None serves in this process and its helpers.

        Raises:
            ValueError: another launcher, numbers that no run can have, or numbers without it.

        """
        numbers = {
            "context-ranks": context_ranks,
            "generation-ranks": generation_ranks,
            "timeout": timeout,
        }
        if launch is None:
            for name, value in numbers.items():
                if value is not None:
                    raise ValueError(f"--{name}: {value} without --launch torchrun; give both")
            return None
        if launch != "torchrun":
            raise ValueError(f"--launch: {launch!r} is unknown; the only one is 'torchrun'")
        roles = Roles(
            context_ranks=1 if context_ranks is None else context_ranks,
            generation_ranks=1 if generation_ranks is None else generation_ranks,
        )
        seconds = 60.0 if timeout is None else timeout
        if not 1 <= seconds <= LONGEST_TIMEOUT:
            raise ValueError(
                f"--timeout: {seconds:g} is not a number of seconds from 1 to {LONGEST_TIMEOUT}"
            )
        return cls(roles, seconds)

    def __str__(self) -> str:
        """As the report has it."""
        return f"{self.roles.context_ranks} context, {self.roles.generation_ranks} generation"
