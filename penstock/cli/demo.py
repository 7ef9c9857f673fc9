def command() -> None:
    """placeholder until the demo lands"""
