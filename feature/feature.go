/*
Package feature lists the features of mpiexec. Each feature is a package in a folder of its own, with its messages,
its options and their help. It registers itself at the points where it takes part. To remove a feature, remove its
line in this file and its folder.

	option.Register                        its options and their help
	setup.Register                         what they mean for a run of mpiexec: checks, files, settings
	setup.RegisterJobRequest               what its command of mpijob requests of a running job
	control.Register                       when a job refuses such a request
	launch.Register, helper.Register       its code in mpiexec and in each helper
	reserve.Register                       what it does on nodes before ranks start there
	wire.Register, wire.RegisterSetting    its messages, and the settings that go to helpers
	node.Admit                             which messages helpers may send, and when
	launch.Handle, helper.Handle           how mpiexec and each helper handle a message

The files launch/hooks.go, launch/reserve/hooks.go and helper/hooks.go define the points at which a feature takes part.
A new message or setting may have any free number. If two have the same number, the program reports that at its start.
After you add an option, run "go test ./cli/option -run TestReference -update" to update doc/options.md. The guide's
tables (doc/guide) name options, too. Package cleanipc is a feature with all parts; bindings is a small one.

The tests of a feature are in its folder. launch/launchtest runs jobs there, with real helpers and ranks.
launch/node/nodetest checks when a helper may send its messages, and wire/wiretest checks how a message is encoded.
The tests of this package check each registered message by its Example. TestScripts in the root of the repository runs
scripts of commands (testdata/*.txtar).
*/
package feature

import (
	_ "remshell/feature/bindings"    // --report-bindings
	_ "remshell/feature/checkpoint"  // --ckpt-..., --checkpoint
	_ "remshell/feature/cleanipc"    // --clean-ipc
	_ "remshell/feature/control"     // --end, --suspend, --resume-job
	_ "remshell/feature/drain"       // mpijob drain, undrain, allow
	_ "remshell/feature/events"      // PMIx events to ranks on other nodes
	_ "remshell/feature/failedranks" // ranks that failed while others go on
	_ "remshell/feature/fetches"     // PMIx_Get of data on other nodes
	_ "remshell/feature/gang"        // --gang
	_ "remshell/feature/hang"        // --hang
	_ "remshell/feature/helptexts"   // help texts of MPI libraries: each once
	_ "remshell/feature/interim"     // --report-every
	_ "remshell/feature/migrate"     // --migrate
	_ "remshell/feature/names"       // names that ranks publish
	_ "remshell/feature/ranktrace"   // --trace, --trace-svg
	_ "remshell/feature/scratch"     // --scratch, --keep-scratch
	_ "remshell/feature/spawn"       // MPI_Comm_spawn
	_ "remshell/feature/stacks"      // mpijob status --stacks, --on-timeout
	_ "remshell/feature/stage"       // --stage
	_ "remshell/feature/status"      // --status, states of ranks after a timeout
	_ "remshell/feature/transcript"  // --pmi-trace
	_ "remshell/feature/usage"       // --usage, --limit, limits.toml of nodes
)
