from probed_runs import curves as curves
from probed_runs import record as record
from probed_runs import result as result
from probed_runs import saved as saved
from probed_runs import unevenly_tested as unevenly_tested
