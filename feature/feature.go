/*
Package feature lists the features of mpiexec. Each has a folder of its own, and registers itself where it takes part:
launch.Register, helper.Register, wire.Register, node.Admit. Removing a line here and its folder removes the feature.
*/
package feature

import (
	_ "remshell/feature/bindings"   // --report-bindings
	_ "remshell/feature/cleanipc"   // --clean-ipc
	_ "remshell/feature/ranktrace"  // the ranks' part of --trace
	_ "remshell/feature/spawn"      // MPI_Comm_spawn
	_ "remshell/feature/transcript" // --pmi-trace
)
