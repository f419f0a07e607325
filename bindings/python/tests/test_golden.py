"""The golden and tampered proofs, and the proof of the demo: Python says of each what the golden file says.

TESSERA_GOLDEN_PROOFS is where the test `tamper` of the prover has written the proofs, TESSERA_DEMO what `tessera demo --keep`
has left.
"""

import concurrent.futures
import json
import os
import pathlib

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


def test_what_is_proved_can_be_read() -> None:
    key, proof = DEMO / "model/model.key", (DEMO / "story.proof").read_bytes()
    verdict = tessera.verify(key, proof)
    assert verdict.accepted and verdict.security_bits is not None and verdict.security_bits >= 90
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
    again = key.verify(proof, prompt_ids=verdict.prompt_ids, output_text=verdict.output_text)
    assert again.accepted and again == verdict
    other = key.verify(proof, output_ids=[1, 2])
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
