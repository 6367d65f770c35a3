"""Studies: read from YAML, checked, and expanded to an ordered list of points.

`load_study` returns a study that can be run, or raises StudyError with one sentence about the file. This package runs,
measures and draws nothing, and imports no other package of the lab.
"""

from mqlab.study.errors import StudyError
from mqlab.study.exhibit import Exhibit, MetricView
from mqlab.study.features import FEATURES, required_features
from mqlab.study.language.consistency import deprecations
from mqlab.study.language.model import Claim, PublishedSetting, StudySource
from mqlab.study.language.parameters import DEFAULT_SCALE
from mqlab.study.metric import METRICS
from mqlab.study.point import Phases, Point, Repeat
from mqlab.study.published import PublishedValue
from mqlab.study.reader import built_in_studies, load_study, published_studies
from mqlab.study.repetition import RepetitionRule
from mqlab.study.rounds.estimate import Estimate, estimate
from mqlab.study.study import Scenario, Study

__all__ = [
    "DEFAULT_SCALE",
    "FEATURES",
    "METRICS",
    "Claim",
    "Estimate",
    "Exhibit",
    "MetricView",
    "Phases",
    "Point",
    "PublishedSetting",
    "PublishedValue",
    "Repeat",
    "RepetitionRule",
    "Scenario",
    "Study",
    "StudyError",
    "StudySource",
    "built_in_studies",
    "deprecations",
    "estimate",
    "load_study",
    "published_studies",
    "required_features",
]
