from .diagnose.diagnose_run import Diagnosis as Diagnosis
from .diagnose.diagnose_run import diagnose_run as diagnose_run
from .diagnose.findings import Finding as Finding
from .diagnose.findings import verdict as verdict
from .html_page import write_report as write_report
from .page_figures import training_progress as training_progress
from .tables import comparison as comparison
from .tables import to_markdown as to_markdown
