"""Data sets: built-in ones by name, files, and the user's arrays."""

from tacit.tasks.data import builtin, hospital, images, libsvm, user_files
from tacit.tasks.data.cells import DecimalMark, number_of, numbers
from tacit.tasks.data.columns import CategoryColumn, Missing
from tacit.tasks.data.csv_table import CsvTable
from tacit.tasks.data.dataset import Dataset, datasets
from tacit.tasks.data.files import DataFile, folders
from tacit.tasks.data.identifiers import looks_like_identifier
from tacit.tasks.data.node_records import join_datasets, join_nodes
from tacit.tasks.data.normalising import Normalise, normalised_records
from tacit.tasks.data.private_columns import RANGE_BINS, PrivateColumns, Ranges, with_ranges
from tacit.tasks.data.published_files import published_files
from tacit.tasks.data.split import Split, fitting_split
from tacit.tasks.data.table_reader import open_table, read_table
from tacit.tasks.data.table_schema import TableSchema
from tacit.tasks.data.table_source import FrameTable, TableSource

__all__ = [
    "RANGE_BINS",
    "CategoryColumn",
    "CsvTable",
    "DataFile",
    "Dataset",
    "DecimalMark",
    "FrameTable",
    "Missing",
    "Normalise",
    "PrivateColumns",
    "Ranges",
    "Split",
    "TableSchema",
    "TableSource",
    "builtin",
    "datasets",
    "fitting_split",
    "folders",
    "hospital",
    "images",
    "join_datasets",
    "join_nodes",
    "libsvm",
    "looks_like_identifier",
    "normalised_records",
    "number_of",
    "numbers",
    "open_table",
    "published_files",
    "read_table",
    "user_files",
    "with_ranges",
]
