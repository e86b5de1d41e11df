"""Accounts the runs that many pages make. The fork server imports this module, so that every page has the results."""

from tacit.runs import Config, from_config
from tacit.runs.privacy_meter import PrivacyMeter


def account(*settings):
    run = from_config(Config.load(None, settings))
    meter = PrivacyMeter(run.task, run.algorithm, run.delta)
    for rounds in range(run.every, run.rounds + 1, run.every):
        meter.planned_epsilon(rounds)


account()
account("rounds=20")
