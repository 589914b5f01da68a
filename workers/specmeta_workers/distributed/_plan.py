"""What all ranks agree on before they start: the pair, the servers, the requests, the roles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from specmeta import DecodingType, EngineConfig, RequestId, SamplingParams

from .._pairs import default_engine, load_bundled_pairs, load_pair
from .._requests import Request
from ._roles import Roles

if TYPE_CHECKING:
    from collections.abc import Iterable

    from specmeta import Deployment

    from .._pairs import Pair


def _path(value: str | Path | None) -> str | None:
    return None if value is None else str(Path(value).absolute())


@attrs.frozen(kw_only=True)
class PairSource:
    """Where every rank loads the models from: directories that each machine has, or the package.

    Raises:
        ValueError: only one of `target` and `drafter`.

    """

    target: str | None = attrs.field(default=None, converter=_path)
    """Directory of the target; None, like `drafter`, for the bundled pairs."""
    drafter: str | None = attrs.field(default=None, converter=_path)
    decoding_types: tuple[DecodingType, ...] = attrs.field(
        default=("DSpark",), converter=tuple[DecodingType, ...]
    )
    """Which bundled drafters; a drafter's directory says itself what it is."""
    dtype: str = "float32"
    stated: dict[str, object] = attrs.Factory(dict)
    """Facts that no file of the drafter states, see `load_pair`."""

    def __attrs_post_init__(self) -> None:
        if (self.target is None) != (self.drafter is None):
            raise ValueError("target and drafter belong together; give both directories or neither")

    def load(self) -> dict[DecodingType, Pair]:
        """A pair a decoding type, on one target; raises as `load_pair`."""
        dtype: Any = self.dtype  # the engine's config knows the names
        engine = default_engine(dtype)
        if self.target is not None and self.drafter is not None:
            pair = load_pair(
                self.target, self.drafter, prompts=(), engine=engine, stated=self.stated
            )
            return {pair.deployment.decoding_type: pair}
        pairs = load_bundled_pairs(self.decoding_types, engine)
        return {pair.deployment.decoding_type: pair for pair in pairs}


@attrs.frozen(kw_only=True)
class ServerSpec:
    """One kind of server, which every rank builds for its role."""

    label: str
    """As progress and errors call it; unique in the plan."""
    decoding_type: DecodingType
    draft_len: int
    """Drafts of a step; 0 decodes without drafts."""
    engine: EngineConfig
    """Sizes of each rank."""
    decoding: dict[str, Any] = attrs.Factory(dict)
    """Further fields of the decoding config."""
    fault: str | None = None
    """Serve with the broken worker of that name, see `bench.AcceptLengthOptions`."""

    def deployment(self, pairs: dict[DecodingType, Pair]) -> Deployment:
        """The deployment of this server.

        Raises:
            ValueError: no pair of its decoding type, or one that does not fit.

        """
        pair = pairs.get(self.decoding_type)
        if pair is None:
            raise ValueError(
                f"server {self.label!r}: its decoding_type is {self.decoding_type}, but the pairs "
                f"are for {', '.join(pairs)}; name it in the source's decoding_types"
            )
        draft_len = max(self.draft_len, 1)  # plain decoding leaves its draft length unused
        return pair.deployment_for(engine=self.engine, max_draft_len=draft_len, **self.decoding)


@attrs.frozen
class Part:
    """Requests that one kind of server serves, from a common start to a common end."""

    server: int
    """Index in the plan's `servers`."""
    requests: tuple[Request, ...] = attrs.field(converter=tuple[Request, ...])


LONGEST_TIMEOUT = 86_400
"""Seconds of a plan's `timeout` at most: a day."""


def _timeout(_: object, __: object, value: object) -> None:
    if type(value) not in (int, float) or not 1 <= float(str(value)) <= LONGEST_TIMEOUT:
        raise ValueError(
            f"timeout: {value!r} is not a number of seconds from 1 to {LONGEST_TIMEOUT}"
        )


def _device(_: object, __: object, value: object) -> None:
    if value not in ("cpu", "cuda"):
        raise ValueError(f"device: {value!r} is neither 'cpu' nor 'cuda'")


@attrs.frozen(kw_only=True)
class Plan:
    """One run over several processes; a JSON file carries it to the ranks.

    Raises:
        ValueError: a part of no server, a request twice for one server, or a time limit that is
            none.

    """

    source: PairSource
    roles: Roles
    servers: tuple[ServerSpec, ...] = attrs.field(converter=tuple[ServerSpec, ...])
    parts: tuple[Part, ...] = attrs.field(converter=tuple[Part, ...])
    """Served one after the other."""
    timeout: float = attrs.field(default=60.0, validator=_timeout)
    """Seconds without a sign of life after which a rank is given up; above the longest step."""
    device: str = attrs.field(default="cpu", validator=_device)
    """`cuda` gives each rank the GPU of its local rank."""

    def __attrs_post_init__(self) -> None:
        labels = [server.label for server in self.servers]
        if len(set(labels)) != len(labels):
            raise ValueError(f"servers: {labels} repeats a label; give each its own")
        seen: set[tuple[int, RequestId]] = set()
        for index, part in enumerate(self.parts):
            if not 0 <= part.server < len(labels):
                raise ValueError(
                    f"parts[{index}]: server {part.server} is not from 0 to {len(labels) - 1}"
                )
            for request in part.requests:
                key = (part.server, request.request_id)
                if key in seen:
                    raise ValueError(
                        f"parts[{index}]: request {request.request_id} was given to "
                        f"{labels[part.server]!r} before; give each request an id of its own"
                    )
                seen.add(key)

    def request_ids(self, server: int) -> list[RequestId]:
        """Ids of all requests that a server gets, in order."""
        parts = (part for part in self.parts if part.server == server)
        return [request.request_id for part in parts for request in part.requests]

    def save(self, path: Path) -> None:
        """Write the JSON file that `load` reads."""

        def plain(_: object, __: object, value: Any) -> Any:
            is_model = isinstance(value, EngineConfig | SamplingParams)
            return value.model_dump(mode="json") if is_model else value

        path.write_text(json.dumps(attrs.asdict(self, value_serializer=plain)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Plan:
        """Read a plan.

        Raises:
            ValueError: not a plan, or one of another release.

        """
        try:
            fields = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                source=PairSource(**fields.pop("source")),
                roles=Roles(**fields.pop("roles")),
                servers=[_server(**server) for server in fields.pop("servers")],
                parts=[
                    Part(part["server"], [_request(**request) for request in part["requests"]])
                    for part in fields.pop("parts")
                ],
                **fields,
            )
        except (OSError, KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(
                f"{path}: not a plan of this release: {error}; write it with Plan.save"
            ) from error


def _server(engine: dict[str, Any], **fields: Any) -> ServerSpec:
    return ServerSpec(engine=EngineConfig.model_validate_json(json.dumps(engine)), **fields)


def _request(sampling: dict[str, Any] | None = None, **fields: Any) -> Request:
    if sampling is not None:
        fields["sampling"] = SamplingParams.model_validate_json(json.dumps(sampling))
    return Request(**fields)


def cut(requests: Iterable[Request], size: int) -> list[tuple[Request, ...]]:
    """Groups of `size` requests, the last perhaps smaller."""
    left = tuple(requests)
    return [left[i : i + size] for i in range(0, len(left), size)]
