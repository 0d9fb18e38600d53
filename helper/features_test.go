package helper_test

import _ "remshell/feature" // sessions in tests have all features, as those of the program do
