"""The base of `Model` that declares its passes to type checkers and editors: the stub file beside it lists them."""


class PassMethods:
    """Has no methods of its own: `espalier.app.api.methods.install` gives each registered pass to `Model`."""
