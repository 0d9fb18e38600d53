package wire_test

import _ "remshell/feature" // FuzzRecv reads the messages of features, too
