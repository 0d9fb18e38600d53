package cli

import (
	"context"
	"maps"
	"path/filepath"
	"slices"

	"remshell/cli/option"
	"remshell/job"
)

/*
This file chooses the front end, by the program's name. All front ends produce a Line of mpiexec, which the rest of the
package carries out.

	mpiexec, mpirun -------------------------.
	aprun    --translateAprun--> arguments --+--> Table.Parse --> Line
	mpijob   --JobTable.Parse--> arguments --'
	   ^
	   '-- apstat, apkill, psiadmin, psmgr (apstat.go)
*/

// frontEnds lists the other names under which mpiexec can be started. Each has its own command-line syntax. The first
// argument "--NAME" has the same effect as the name.
var frontEnds = append([]string{"aprun", "mpijob"}, slices.Sorted(maps.Keys(statusFrontEnds))...)

// FrontEndArgs returns mpiexec's arguments for a command line. args[0] is the program's name. If it is one of
// frontEnds, the result begins with the option --NAME.
func FrontEndArgs(args []string) []string {
	if len(args) > 0 && slices.Contains(frontEnds, filepath.Base(args[0])) {
		return append([]string{"--" + filepath.Base(args[0])}, args[1:]...)
	}
	return args[min(1, len(args)):]
}

// FrontEndEnv returns the environment for a command line. If the program's name, args[0], is mpirun, it adds
// MPIEXEC_LENIENT=1, unless environ sets that variable.
func FrontEndEnv(args, environ []string) []string {
	if len(args) == 0 || !slices.Contains([]string{"mpirun", "mpirun.remshell"}, filepath.Base(args[0])) {
		return environ
	}
	if _, isSet := job.LookupEnv(environ, "MPIEXEC_LENIENT"); isSet {
		return environ
	}
	return append(slices.Clone(environ), "MPIEXEC_LENIENT=1") // ranks do not get MPIEXEC_* variables of mpiexec
}

// programName returns the program name with which messages begin. For aprun it is mpiexec, because aprun's
// options are translated to those of mpiexec.
func (s System) programName() string {
	if s.isMpijob() {
		return s.frontEnd
	}
	return "mpiexec"
}

// isMpijob reports whether the program is mpijob, or a program whose command line is translated to mpijob's.
func (s System) isMpijob() bool { return s.frontEnd == "mpijob" || statusFrontEnds[s.frontEnd] != nil }

// splitFrontEnd splits off a first argument "--NAME" that FrontEndArgs has added. It returns NAME and the other
// arguments. If there is no such argument, name is mpiexec.
func splitFrontEnd(args []string) (name string, rest []string) {
	for _, name = range frontEnds {
		if len(args) > 0 && args[0] == "--"+name {
			return name, args[1:]
		}
	}
	return "mpiexec", args
}

func runMpijob(ctx context.Context, args []string, table *option.JobTable, sys System, errorCode int) (code int, err error) {
	sys.awaitReady()
	if words, requested := completionWords(args); requested {
		return job.ExitOK, printCompletion(ctx, words, table, sys)
	}
	line, args, err := table.Parse(args, optionSources(sys))
	if err != nil {
		return 0, err
	}
	return runLine(ctx, args, line, table, sys, errorCode)
}
