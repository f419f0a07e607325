class TesseraError(ValueError):
    """A key or proof that cannot be used, or a proof that a key cannot decide about."""

#: The most bytes of a key.
KEY_LIMIT: int

class RawKey:
    def __new__(cls, data: bytes) -> RawKey: ...
    @property
    def id(self) -> str: ...
    @property
    def most_proof_bytes(self) -> int: ...
    def describe(self) -> str: ...
    def verify(
        self,
        proof: bytes,
        name: str,
        prompt_ids: list[int] | None,
        output_ids: list[int] | None,
        output_text: str | None,
        context: str | None,
    ) -> tuple[str, str]: ...
