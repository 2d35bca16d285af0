"""Phrases with numbers."""


def plural(number: int, noun: str) -> str:
    """ "1 peer", "2 peers"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def there_are(number: int, noun: str) -> str:
    """ "there is 1 slot", "there are 2 slots"."""
    return f"there {'is' if number == 1 else 'are'} {plural(number, noun)}"
