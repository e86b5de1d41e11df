"""The populations in a records ledger: which one some records belong to, and its budget."""

from __future__ import annotations

import sqlite3

from tacit.errors import TacitError
from tacit.privacy.budget import Budget


def find_population(db: sqlite3.Connection, records: str, name: str | None) -> int:
    """Return the number of the population of these records, as declared or as recorded before.

    A population that is declared later takes the runs on its records that did not declare it.
    """
    find = "SELECT population.id, name, epsilon FROM records JOIN population ON population = population.id "
    recorded = db.execute(find + "WHERE digest = ?", (records,)).fetchone()
    if name is not None and (not name.strip() or name.startswith("#")):
        raise TacitError(f'The name of a population must not be empty or begin with #, got "{name}"')
    declared = name and db.execute("SELECT id FROM population WHERE name = ?", (name,)).fetchone()
    if recorded is None:
        declared = declared or db.execute("INSERT INTO population (name) VALUES (?) RETURNING id", (name,)).fetchone()
        db.execute("INSERT INTO records VALUES (?, ?)", (records, declared[0]))
        return int(declared[0])
    number, recorded_name, epsilon = recorded
    if name is None or recorded_name == name:
        return int(number)
    if recorded_name is not None or (declared and epsilon is not None):
        raise TacitError(
            f'These records belong to the population "{recorded_name or f"#{number}"}", which has its own runs and '
            f'budget: declare that population, not "{name}"'
        )
    if not declared:  # earlier runs did not declare it
        db.execute("UPDATE population SET name = ? WHERE id = ?", (name, number))
        return int(number)
    db.execute("UPDATE run SET population = ? WHERE population = ?", (declared[0], number))
    db.execute("UPDATE records SET population = ? WHERE population = ?", (declared[0], number))
    db.execute("DELETE FROM population WHERE id = ?", (number,))
    return int(declared[0])


def agreed_budget(db: sqlite3.Connection, population: int, asked: Budget | None) -> Budget | None:
    """Return the budget of a population. A run can state the recorded one or lower it."""
    epsilon, delta = db.execute("SELECT epsilon, delta FROM population WHERE id = ?", (population,)).fetchone()
    recorded = None if epsilon is None else Budget(epsilon, delta)
    if asked is None:
        return recorded
    if recorded is not None and (asked.delta != recorded.delta or asked.epsilon > recorded.epsilon):
        name = db.execute("SELECT COALESCE(name, '#' || id) FROM population WHERE id = ?", (population,)).fetchone()[0]
        raise TacitError(
            f"These records have a budget of ε = {recorded.epsilon:g} at δ = {recorded.delta:g}, and this run asks for "
            f"ε = {asked.epsilon:g} at δ = {asked.delta:g}. A run cannot raise it; to change it, use "
            f'tacit budget "{name}" --epsilon {asked.epsilon:g} --delta {asked.delta:g}'
        )
    store_budget(db, population, asked)
    return asked


def store_budget(db: sqlite3.Connection, population: int, budget: Budget) -> None:
    """Replace the budget of a population."""
    db.execute("UPDATE population SET epsilon = ?, delta = ? WHERE id = ?", (budget.epsilon, budget.delta, population))
