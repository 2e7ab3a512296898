"""Values outside the declared types of options."""

from typing import Annotated, Any, Literal, get_args, get_origin

from auepora_eval.options import Ge, Gt, Le, Lt, NonEmpty, option_types


def alternatives(hint: Any) -> list[tuple[Any, tuple[Any, ...]]]:
    """The members of a union, each with its constraints."""
    if get_origin(hint) is Annotated:
        base, *constraints = get_args(hint)
        return [(base, tuple(constraints))]
    if get_origin(hint) in (Literal, None) or not any(one is type(None) for one in get_args(hint)):
        return [(hint, ())]
    return [pair for one in get_args(hint) if one is not type(None) for pair in alternatives(one)]


def wrong_values(hint: Any) -> list[Any]:
    """Values that an option of this type must refuse; those that JSON can hold."""
    members = alternatives(hint)
    if len(members) != 1:
        return []
    base, constraints = members[0]
    values: list[Any] = []
    for one in constraints:
        match one:
            case Ge(limit):
                values.append(limit - 1)
            case Gt(limit) | Lt(limit):
                values.append(limit)
            case Le(limit):
                values.append(limit + 1)
            case NonEmpty():
                values.append("" if base is str else [])
    if base in (int, float):
        values += [True, "7", [7]]
    elif base is bool:
        values += ["maybe", 1]
    elif base is str:
        values += [5, ["a"]]
    elif get_origin(base) is Literal:
        values += ["no such choice", 7]
    return values


def unbounded_numbers(target: Any) -> set[str]:
    """The options that are numbers without a lower or upper limit."""
    return {
        name
        for name, hint in option_types(target).items()
        for base, constraints in alternatives(hint)
        if base in (int, float) and not any(isinstance(one, (Ge, Gt, Le, Lt)) for one in constraints)
    }
