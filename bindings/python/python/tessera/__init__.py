"""Verifies Tessera proofs: that a language model, on a prompt, generates exactly a text.

>>> import tessera
>>> verdict = tessera.verify("model.key", "story.proof")  # doctest: +SKIP
>>> verdict.accepted, verdict.security_bits, verdict.output_text  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import operator
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Union

from ._tessera import KEY_LIMIT
from ._tessera import RawKey as _RawKey
from ._tessera import TesseraError
from ._tessera import options as _options

__all__ = ["Key", "Policy", "TesseraError", "Verdict", "verify"]

if TYPE_CHECKING:
    from typing_extensions import Unpack

#: The bytes of a file, or its path.
Source = Union[bytes, bytearray, memoryview, str, "os.PathLike[str]"]


def _read(field: str, source: Source, most: int) -> tuple[bytes, str]:
    """The bytes of a source, or the first ``most`` and one more, and what it is called in reasons."""
    if isinstance(source, memoryview) and source.format not in ("B", "b", "c"):
        raise TypeError(f"{field} has to be bytes, not a view of other items (format {source.format!r})")
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source), "the proof"
    if not isinstance(source, (str, os.PathLike)):
        raise TypeError(f"{field} has to be bytes or a path, not {type(source).__name__}")
    path = os.fspath(source)
    with open(path, "rb") as file:
        content = file.read(most + 1)
    # As ``tessera-verify`` spells names: no two of them alike.
    return content, os.fsencode(path).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def _ids(field: str, ids: Iterable[int] | None) -> list[int] | None:
    """Token ids, of which none is rounded or cut."""
    if ids is None:
        return None
    if isinstance(ids, (str, bytes, bytearray, memoryview)) or not isinstance(ids, Iterable):
        raise TypeError(f"{field} has to be a list of token ids, not {type(ids).__name__}")
    read: list[int] = []
    for place, own in enumerate(ids):
        try:
            number = operator.index(own)
        except TypeError:
            number = -1
        if isinstance(own, bool) or not 0 <= number < 1 << 32:
            raise TypeError(f"{field}[{place}] is no token id, an integer from 0 to 4294967295: {own!r}")
        read.append(number)
    return read


class Policy(TypedDict, total=False):
    """What a proof has to be about. Every option that is given has to be met."""

    #: The prompt's ids are the encoding of this text; with ``chat``, of the chat that asks it.
    expect_prompt: str | None
    #: The prompt is this conversation, in the words of the key's chat template: a list of ``{"role": .., "content": ..}``.
    expect_messages: Sequence[Mapping[str, Any]] | None
    #: The expected prompt is what a user says in a chat.
    chat: bool
    #: The system message of the expected chat.
    system: str | None
    #: The day of the expected chat, where the template writes it into the prompt. A datetime is taken as UTC if it has no zone.
    date: str | datetime.date | None
    #: Functions that the model may call in the expected chat, as in OpenAI's interface.
    tools: Sequence[Mapping[str, Any]] | None
    #: A chat template (Jinja) in place of the key's own, or the name of one of the key's.
    chat_template: str | None
    chat_template_name: str | None
    #: Query and document, for a reranker.
    expect_pair: tuple[str, str] | None
    expect_prompt_ids: Iterable[int] | None
    #: The output reads exactly like this; special tokens are not shown in a text.
    expect_output: str | None
    expect_output_ids: Iterable[int] | None
    #: The last id of the output, and no id before, is one by which the model ends a text.
    expect_complete: bool
    #: Id of the model, 64 hexadecimal digits.
    expect_model: str | None
    #: 64 hexadecimal digits.
    expect_context: str | None
    #: The fewest bits of security: 90 or more.
    min_bits: float | None


#: What each option of a policy takes, as the verifier knows it.
_KINDS: dict[str, str] = {option["name"]: option["kind"] for option in json.loads(_options())}


def _option(name: str, value: Any) -> Any:
    """The value of an option for JSON, of which nothing is rounded, cut or changed."""
    kind = _KINDS.get(name)
    if kind is None:
        raise TypeError(f"{name!r} is no option: there are {', '.join(_KINDS)}")
    if value is None:
        return None
    if name == "date" and isinstance(value, datetime.date):
        if isinstance(value, datetime.datetime):
            value = value if value.tzinfo is None else value.astimezone(datetime.timezone.utc)
            return value.strftime("%Y-%m-%dT%H:%M:%S")
        return value.isoformat()
    wanted: dict[str, tuple[type | tuple[type, ...], str]] = {
        "flag": (bool, "True or False"),
        "text": (str, "a str"),
        "pair": ((tuple, list), "a tuple of two str"),
        "number": ((int, float), "a number"),
        "json": ((list, tuple), "a list of dicts"),
    }
    if kind == "ids":
        return _ids(name, value)
    types, what = wanted[kind]
    if not isinstance(value, types) or (kind == "number" and isinstance(value, bool)):
        raise TypeError(f"{name} has to be {what}, not {type(value).__name__}")
    own: Any = value
    if kind == "pair" and (len(own) != 2 or not all(isinstance(text, str) for text in own)):
        raise TypeError(f"{name} has to be {what}")
    return own


def _policy(options: Policy) -> str:
    text = json.dumps({name: _option(name, value) for name, value in options.items()}, ensure_ascii=False)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TypeError(f"a policy has half of a character, which is no Unicode text: {text[error.start]!r}") from None
    return text


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a key says of a proof. What is proved is None where nothing is."""

    #: The proof is valid, and about what was expected.
    accepted: bool
    #: Why it is rejected.
    reason: str | None
    #: Id of the model that the key is of.
    model_id: str
    proof_bytes: int
    #: Bits of security that were enforced.
    security_bits: float | None
    #: None in the place of an id that the proof hides.
    prompt_ids: tuple[int | None, ...] | None
    output_ids: tuple[int | None, ...] | None
    #: Texts are hostile: ``text`` has them escaped. None if ids are hidden, or without a tokenizer; then ``no_text`` says why.
    prompt_text: str | None
    output_text: str | None
    no_text: str | None
    #: "stop" if the model ended the text, "length" if it stops at its length, None if ids of the output are hidden.
    finish_reason: str | None
    #: In the place of an output, what an encoder makes of the prompt: the integers that are proved, and what they stand for.
    integers: tuple[int, ...] | None
    embedding: tuple[float, ...] | None
    #: In the place of an embedding, what the head of a reranker makes of the integers.
    logits: tuple[float, ...] | None
    scores: tuple[float, ...] | None
    #: Positions of ids that the proof hides and reveals say: prompt first, from 0 on.
    revealed: tuple[int, ...]
    #: Number of chunks that the model was proved in.
    chunks: int | None
    #: What the prover tied the proof to, in hexadecimal; None if it is tied to nothing.
    context: str | None
    #: What may help with the expectation that ``reason`` is about.
    help: str | None
    #: Why expectations that are met say less than they seem to.
    warnings: tuple[str, ...]
    #: For people, as ``tessera verify`` prints it.
    text: str = dataclasses.field(repr=False)
    #: All fields of ``tessera verify --json``.
    fields: Mapping[str, Any] = dataclasses.field(repr=False, compare=False)

    def __bool__(self) -> bool:
        return self.accepted


class Key:
    """A model key, read and checked once."""

    def __init__(self, source: Source) -> None:
        """Raises TesseraError if the source is no usable key."""
        self._raw = _RawKey(_read("key", source, KEY_LIMIT)[0])

    @property
    def id(self) -> str:
        """Id of the model."""
        return self._raw.id

    def describe(self) -> dict[str, Any]:
        """What ``tessera-verify inspect --json`` says of the key."""
        described: dict[str, Any] = json.loads(self._raw.describe())
        return described

    def verify(self, proof: Source, *, reveals: Iterable[Source] = (), **policy: Unpack[Policy]) -> Verdict:
        """The verdict on a proof, which has to be as the options of the policy say (:class:`Policy`).

        ``reveals`` are reveals of ids that the proof hides: the verdict has these ids, and one that is not true of this proof is a reason to reject.

        Raises TesseraError if nothing can be decided: the proof is about another model, or the policy cannot be applied with this key.
        """
        content, name = _read("proof", proof, self._raw.most_proof_bytes)
        if isinstance(reveals, (str, bytes, bytearray, memoryview, os.PathLike)):
            raise TypeError(f"reveals has to be a list of reveals, not {type(reveals).__name__}")
        most = self._raw.most_reveal_bytes
        revealed = [_read(f"reveals[{place}]", own, most)[0] for place, own in enumerate(reveals)]
        said, text = self._raw.verify(content, name, _policy(policy), revealed)
        fields: dict[str, Any] = json.loads(said)

        def ids_of(side: str) -> tuple[int, ...] | None:
            return tuple(fields[side]) if side in fields else None

        def numbers_of(side: str) -> tuple[float, ...] | None:
            return tuple(fields[side]) if side in fields else None

        return Verdict(
            accepted=fields["verdict"] == "accept",
            reason=fields.get("reason"),
            model_id=fields["model_id"],
            proof_bytes=fields["proof_bytes"],
            security_bits=fields.get("security_bits"),
            prompt_ids=ids_of("prompt_ids"),
            output_ids=ids_of("output_ids"),
            prompt_text=fields.get("prompt_text"),
            output_text=fields.get("output_text"),
            no_text=fields.get("no_text"),
            finish_reason=fields.get("finish_reason"),
            integers=ids_of("integers"),
            embedding=numbers_of("embedding"),
            logits=numbers_of("logits"),
            scores=numbers_of("scores"),
            revealed=tuple(fields.get("revealed", ())),
            chunks=fields.get("chunks"),
            context=fields.get("context"),
            help=fields.get("help"),
            warnings=tuple(fields.get("warnings", ())),
            text=text,
            fields=fields,
        )

    def __repr__(self) -> str:
        return f"<tessera.Key {self.id}>"


def verify(key: Source | Key, proof: Source, *, reveals: Iterable[Source] = (), **policy: Unpack[Policy]) -> Verdict:
    """The verdict of a key on a proof: see :meth:`Key.verify`."""
    if not isinstance(key, Key):
        key = Key(key)
    return key.verify(proof, reveals=reveals, **policy)
