package option_test

import _ "remshell/feature" // the table in tests has the options of all features, as that of the program has
