package launch_test

import _ "remshell/feature" // jobs in tests have all features, as those of the program do
