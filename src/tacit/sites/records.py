"""The records of a site, in the form that network.toml declares for all sites."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tacit.errors import TacitError
from tacit.runs import Batch, FeatureKeys, NamedPart, batch_relation, build_data
from tacit.sites.data_format import DataFormat
from tacit.sites.site_config import SiteConfig
from tacit.tasks import Dataset, PixelScale, datasets, with_features


def load_records(site: SiteConfig, batch: Batch) -> Dataset:
    """Load the site's data, with classes numbered as at all sites, and check their format.

    Classes and split are refused as in a private run, whether or not there is noise: other sites can observe whether
    this one starts, so that must not depend on which classes its records have.
    """
    name, params, expected = site.data.name, site.data.parameters, site.network_config.data
    shared = _declared(name, expected)
    if given := [key for key in FeatureKeys.model_fields if key in params]:
        raise TacitError(f"{site.name}: data.{given[0]} is the same at all sites: move it to [data] of {site.network}")
    if changed := [key for key in shared if params.get(key, shared[key]) != shared[key]]:
        raise TacitError(f"{site.name}: data.{changed[0]} differs from {site.network}: remove it from node.toml")
    relation = batch_relation(batch)
    data = build_data(NamedPart.model_validate({**params, **shared, "name": name}), relation)
    if not isinstance(data, Dataset):
        raise TacitError(f"{name} must return a Dataset, such as Dataset.from_arrays(x, y, labels=…)")
    data.check_public_facts(relation)
    if data.schema != expected.table_schema:
        wanted = "other data" if expected.table_schema is None else "the columns of data.columns"
        raise wrong_format(site, "other columns" if data.schema else "no declared columns", wanted)
    if data.inputs != expected.shape:
        raise wrong_format(site, f"records of shape {list(data.inputs)}", f"shape {list(expected.shape or ())}")
    if data.classes != len(expected.label_order) and not (
        expected.table_schema and data.target == expected.table_schema.target
    ):
        raise wrong_format(site, f"{data.classes} classes", f"{len(expected.label_order)} classes")
    return _with_features(site, data)


def _with_features(site: SiteConfig, data: Dataset) -> Dataset:
    """Apply the features of the network. Every site builds the same map, which the description compares."""
    expected = site.network_config.data
    if expected.features is None:
        return data
    pixels = None if expected.pixels is None else PixelScale(expected.pixels.mean, expected.pixels.std)
    if data.pixels is not None and data.pixels != pixels:
        raise wrong_format(site, f"pixels standardised with {tuple(data.pixels)}", "data.pixels with the same numbers")
    return with_features(replace(data, pixels=pixels), expected.features, expected.whiten, expected.rank)


def wrong_format(site: SiteConfig, found: str, expected: str) -> TacitError:
    """Return the error for data that have another format than network.toml requires."""
    return TacitError(f"{site.name}: the data have {found}, but {site.network} requires {expected}")


def _declared(name: str, expected: DataFormat) -> dict[str, Any]:
    """The parameters of a site's data that network.toml declares for all sites."""
    shared: dict[str, Any] = {"labels": list(expected.label_order)}
    if expected.table_schema is not None:
        shared = {"columns": expected.columns, "missing": expected.missing or "middle"}
    return {key: value for key, value in shared.items() if key in datasets.parameters(name)}
