"""The golden and tampered proofs, and the proof of the demo: Python says of each what the golden file says.

TESSERA_GOLDEN_PROOFS is where the test `tamper` of the prover has written the proofs, TESSERA_DEMO what `tessera demo --keep`
has left.
"""

import array
import concurrent.futures
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
from typing import Any, cast

import pytest

import tessera

ROOT = pathlib.Path(__file__).resolve().parents[3]
GOLDEN = pathlib.Path(os.environ["TESSERA_GOLDEN_PROOFS"])
DEMO = pathlib.Path(os.environ["TESSERA_DEMO"])
EXPECTED = json.loads((ROOT / "fixtures/golden-proofs.json").read_text())["verdicts"]
CASES = json.loads((GOLDEN / "cases.json").read_text())
TABLE = [
    pytest.param(key, path, name, words, id=f"{i}: {name}")
    for i, ((key, proofs), verdicts) in enumerate(zip(CASES, EXPECTED, strict=True))
    for (name, path), (expected_name, words) in zip(proofs, verdicts, strict=True)
    if name == expected_name
]
KEYS = {key: tessera.Key(key) for key, _ in CASES}


POLICIES = json.loads((ROOT / "fixtures/policies.json").read_text())


def spelled(text: str | None) -> str | None:
    """A text of the table as Python spells options: ``{--chat}`` is an option, ``{--chat!}`` a flag that is given."""

    def own(found: re.Match[str]) -> str:
        return found[1].replace("-", "_") + ("=True" if found[2] else "")

    return None if text is None else re.sub(r"\{--([a-z-]+)(!?)\}", own, text)


def shown(ids: tuple[int | None, ...] | None) -> tuple[int, ...]:
    """Ids of which none is hidden."""
    assert ids is not None and None not in ids
    return tuple(own for own in ids if own is not None)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in POLICIES])
def test_every_case_of_the_policies_has_the_verdict_of_the_table(case: dict[str, Any]) -> None:
    key = tessera.Key(GOLDEN / "policies" / case["key"])
    with contextlib.chdir(GOLDEN / "policies"):
        if case["status"] == 2:
            with pytest.raises(tessera.TesseraError) as raised:
                key.verify(case["proof"], **case["policy"])
            assert str(raised.value) == re.sub(r", \S+ is the key of", ", the key is the key of", spelled(case["error"]) or "")
            return
        verdict = key.verify(case["proof"], **case["policy"])
    assert verdict.accepted == (case["status"] == 0)
    assert (verdict.reason, verdict.help) == (spelled(case.get("reason")), spelled(case.get("help")))
    assert list(verdict.warnings) == [spelled(text) for text in case.get("warnings", [])]
    assert {name: check["met"] for name, check in verdict.fields.get("policy", {}).items()} == (case.get("met") or {})
    assert all(line.isprintable() for line in verdict.text.split("\n"))


def test_the_types_know_every_option() -> None:
    assert len(POLICIES) >= 40
    with pytest.raises(TypeError, match="'unheard' is no option: there are ") as raised:
        tessera.verify(DEMO / "model/model.key", DEMO / "story.proof", unheard=1)  # type: ignore[call-arg]
    assert str(raised.value).split("there are ")[1].split(", ") == list(tessera.Policy.__annotations__)


def test_dates_are_days_and_moments() -> None:
    case = next(case for case in POLICIES if case["name"] == "the template writes the expected day into the prompt")
    key, proof = tessera.Key(GOLDEN / "policies" / case["key"]), GOLDEN / "policies" / case["proof"]
    zone = datetime.timezone(datetime.timedelta(hours=5))
    for date in (datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 23, 59), datetime.datetime(2024, 3, 1, 4, tzinfo=zone)):
        assert key.verify(proof, expect_prompt="Why?", chat=True, date=date)
    assert not key.verify(proof, expect_prompt="Why?", chat=True, date=datetime.date(2024, 3, 1))


def test_the_table_is_whole() -> None:
    assert len(TABLE) == sum(map(len, EXPECTED)) > 100


@pytest.mark.parametrize(("key", "path", "name", "words"), TABLE)
def test_the_verdict_is_the_golden_one(key: str, path: str, name: str, words: str) -> None:
    if words.startswith("the proof is about model"):
        with pytest.raises(tessera.TesseraError, match="is the key of another model"):
            KEYS[key].verify(path)
        return
    verdict = KEYS[key].verify(path)
    assert (verdict.accepted, bool(verdict)) == (words == "accepted",) * 2
    assert verdict.reason == (None if verdict.accepted else words)
    # What an encoder makes is integers.
    assert (verdict.output_ids is None and verdict.integers is None) != verdict.accepted


REVEALS = json.loads((ROOT / "fixtures/golden-proofs.json").read_text())["reveals"]


@pytest.mark.parametrize(("place", "words"), [pytest.param(i, words, id=name) for i, (name, words) in enumerate(REVEALS)])
def test_the_verdict_on_a_reveal_is_the_golden_one(place: int, words: str) -> None:
    directory = GOLDEN / "reveals"
    key, proof, reveal = tessera.Key(directory / "model.key"), directory / "hidden.proof", directory / f"{place}.reveal"
    verdict = key.verify(proof, reveals=[reveal])
    assert (verdict.accepted, verdict.reason) == ((True, None) if words == "accepted" else (False, words))
    if not verdict.accepted:
        return
    hidden = key.verify(proof)
    assert hidden.output_ids is not None and not any(hidden.output_ids) and hidden.revealed == ()
    assert shown(verdict.output_ids) and verdict.prompt_ids is not None and None in verdict.prompt_ids
    assert len(verdict.revealed) == 4 and verdict.fields["reveals_left"] == 1
    assert verdict == tessera.verify(key, proof.read_bytes(), reveals=iter([reveal.read_bytes()]))
    for wrong in (reveal, reveal.read_bytes(), str(reveal)):
        with pytest.raises(TypeError, match="^reveals has to be a list of reveals"):
            key.verify(proof, reveals=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^reveals\[0\] has to be bytes or a path"):
        key.verify(proof, reveals=[7])  # type: ignore[list-item]
    mistaken = key.verify(reveal)
    assert mistaken.reason is not None and "is a reveal, not a proof" in mistaken.reason


def test_what_is_proved_can_be_read() -> None:
    key, proof = DEMO / "model/model.key", (DEMO / "story.proof").read_bytes()
    verdict = tessera.verify(key, proof)
    assert verdict.accepted and verdict.security_bits is not None and verdict.security_bits >= 93.5
    assert verdict.prompt_text == "Once upon a time" and verdict.output_text and verdict.finish_reason == "length"
    assert verdict.prompt_ids is not None and verdict.fields["prompt_ids"] == list(verdict.prompt_ids)
    assert verdict.text.startswith("accepted\nmodel ") and verdict.model_id == tessera.Key(key).id
    described = tessera.Key(key.read_bytes()).describe()
    assert described["model_id"] == verdict.model_id
    assert described["recipe"]["fidelity"]["class"] == "faithful"


def test_what_is_expected_decides() -> None:
    key, proof = tessera.Key(DEMO / "model/model.key"), DEMO / "story.proof"
    verdict = key.verify(proof)
    assert verdict.output_text is not None
    again = key.verify(proof, expect_prompt_ids=shown(verdict.prompt_ids), expect_output=verdict.output_text, chat=False, system=None)
    # The report says what was expected; all else is the verdict without expectations.
    assert again.accepted and "output as expected" in again.text
    assert dataclasses.replace(again, text=verdict.text) == verdict
    other = key.verify(proof, expect_output_ids=[1, 2])
    assert not other and other.reason is not None and "the output is not the expected one" in other.reason
    assert other.output_ids == verdict.output_ids


def test_what_is_no_key_or_proof_is_said() -> None:
    key = DEMO / "model/model.key"
    with pytest.raises(tessera.TesseraError, match="not a model key file"):
        tessera.Key(DEMO / "story.proof")
    with pytest.raises(FileNotFoundError):
        tessera.verify(key, "none.proof")
    with pytest.raises(TypeError):
        tessera.verify(key, 7)  # type: ignore[arg-type]
    verdict = tessera.verify(key, key)
    assert not verdict.accepted and verdict.reason is not None and "is a model key, not a proof" in verdict.reason
    assert issubclass(tessera.TesseraError, ValueError)


def test_threads_share_a_key() -> None:
    key, proof = tessera.Key(DEMO / "model/model.key"), (DEMO / "story.proof").read_bytes()
    changed = bytearray(proof)
    changed[len(proof) // 2] ^= 1
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        verdicts = list(pool.map(key.verify, [proof, bytes(changed)] * 4))
    assert [bool(verdict) for verdict in verdicts] == [True, False] * 4


def test_no_id_is_rounded_cut_or_guessed() -> None:
    key, proof = tessera.Key(DEMO / "model/model.key"), DEMO / "story.proof"
    ids = shown(key.verify(proof).prompt_ids)
    for own in (ids[0] + 0.5, float(ids[0]), ids[0] + 2**32, ids[0] - 2**32, str(ids[0]), True, None, [ids[0]]):
        for field in ("expect_prompt_ids", "expect_output_ids"):
            with pytest.raises(TypeError, match=rf"^{field}\[0\] is no token id"):
                key.verify(proof, **cast(Any, {field: [own, *ids[1:]]}))
    for field in ("expect_prompt_ids", "expect_output_ids"):
        for listed in ("12", b"12", 12):
            with pytest.raises(TypeError, match=rf"^{field} has to be a list of token ids"):
                key.verify(proof, **cast(Any, {field: listed}))
    with pytest.raises(TypeError, match="^expect_output has to be a str"):
        key.verify(proof, expect_output=b"text")  # type: ignore[arg-type]
    for name, value in [("chat", 1), ("min_bits", True), ("min_bits", "95"), ("expect_pair", ("a",)), ("expect_pair", "ab"), ("expect_messages", "[]")]:
        with pytest.raises(TypeError, match=f"^{name} has to be "):
            key.verify(proof, **cast(Any, {name: value}))
    with pytest.raises(TypeError, match="promptIds"):
        key.verify(proof, promptIds=[1])  # type: ignore[call-arg]
    assert key.verify(proof, expect_prompt_ids=array.array("I", ids)) and key.verify(proof, expect_prompt_ids=iter(ids))


def test_keys_and_proofs_are_bytes_or_paths() -> None:
    key, proof = tessera.Key(DEMO / "model/model.key"), (DEMO / "story.proof").read_bytes()
    even = proof[: len(proof) // 2 * 2]
    for own in (memoryview(array.array("H", even)), list(proof), 7, None):
        with pytest.raises(TypeError, match="^proof has to be bytes"):
            key.verify(own)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="^key has to be bytes"):
            tessera.Key(own)  # type: ignore[arg-type]
    assert key.verify(bytearray(proof)) and key.verify(memoryview(proof))


def test_names_that_are_no_text_are_told_apart(tmp_path: pathlib.Path) -> None:
    key = (DEMO / "model/model.key").read_bytes()
    reasons = []
    for name in (b"a\xff", b"a\xfe", b"a\\xff"):
        path = os.path.join(os.fsencode(tmp_path), name)
        with open(path, "wb") as file:
            file.write(key)
        reasons.append(tessera.verify(key, os.fsdecode(path)).reason)
    assert all(reason is not None and "is a model key, not a proof" in reason for reason in reasons)
    assert len(set(reasons)) == 3


def test_no_more_is_read_than_a_proof_can_have(tmp_path: pathlib.Path) -> None:
    key, long = tessera.Key(DEMO / "model/model.key"), tmp_path / "long.proof"
    with long.open("wb") as file:
        file.write((DEMO / "story.proof").read_bytes())
        file.truncate(1 << 40)
    verdict = key.verify(long)
    assert verdict.reason == (
        f"malformed proof: the file has more than {verdict.proof_bytes - 1} bytes, but no proof of this model does"
    )
    assert not key.verify("/dev/zero")
