package node_test

import _ "remshell/feature" // FuzzAdmit tries the messages of features, too
