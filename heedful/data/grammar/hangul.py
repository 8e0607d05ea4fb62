"""The sound rules of Korean: particles and endings that depend on the sound before them.

A Hangul syllable is one code point, and its final consonant a remainder modulo 28 (Unicode 3.12). From that follow the
particles (은/는, 이/가, 을/를, 와/과, 으로/로) and the endings that melt into the last syllable (보 + ㄴ = 본). Knows
no word.
"""

_FIRST, _FINALS = 0xAC00, 28
NIEUN, RIEUL, SSANGSIOS = 4, 8, 20
"""ㄴ, ㄹ and ㅆ as finals."""

_PARTICLES = {
    "는": ("는", "은"),
    "가": ("가", "이"),
    "를": ("를", "을"),
    "와": ("와", "과"),
    "다": ("다", "이다"),
    "였다": ("였다", "이었다"),
}


def final(word: str) -> int:
    """The final consonant of a word's last syllable, 0 if it ends in a vowel."""
    return (ord(word[-1]) - _FIRST) % _FINALS


def with_particle(word: str, particle: str) -> str:
    """The word with a particle, named by its form behind a vowel, in the form that its last sound asks for."""
    if particle == "로":
        return word + ("로" if final(word) in (0, RIEUL) else "으로")
    behind_vowel, behind_consonant = _PARTICLES.get(particle, (particle, particle))
    return word + (behind_consonant if final(word) else behind_vowel)


def with_final(word: str, consonant: int) -> str:
    """The word with another final consonant: 보 and ㄴ give 본, 팔 and ㄴ give 판."""
    return word[:-1] + chr(ord(word[-1]) - final(word) + consonant)


def soft_stem(stem: str) -> str:
    """The stem before -ㄴ and -ㄹ, where it is regular: 먹으 of 먹, 보 of 보, 팔 of 팔."""
    return stem if final(stem) in (0, RIEUL) else stem + "으"
