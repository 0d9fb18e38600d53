package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/usererr"
)

/*
This file contains the program names under which mpiexec implements commands of other launchers about jobs:

	apstat -a n1        --translateApstat-->  mpijob ps n1
	apkill -TERM 17-a   --translateApkill-->  mpijob signal TERM 17-a
	psiadmin, psmgr     one line that says what to use

make install does not link these names. Cray's own apstat and apkill may be installed on the same machine, and only they
know the jobs of ALPS. A user who wants the names creates the links.
*/

// statusFrontEnds maps the program names apstat, apkill, psiadmin and psmgr to functions that translate their
// arguments to those of mpijob. If the arguments ask for help, the function returns the help text instead.
var statusFrontEnds = map[string]func(args []string, table *option.JobTable) (words []string, help string, err error){
	"apstat": translateApstat,
	"apkill": translateApkill,
	"psiadmin": func([]string, *option.JobTable) ([]string, string, error) {
		return nil, "", &usererr.Error{Text: "psiadmin controls ParaStation daemons, but mpiexec needs no daemons", Remedy: "use mpijob ps to list jobs, mpijob end JOB to end a job, mpijob doctor HOST to check a host, and mpijob drain HOST or mpijob allow maxproc=N HOST to restrict a host; for permanent restrictions, edit node.toml or cluster.toml"}
	},
	"psmgr": func([]string, *option.JobTable) ([]string, string, error) {
		return nil, "", &usererr.Error{Text: "psmgr controls process managers on hosts, but mpiexec needs no process managers", Remedy: "use mpijob ps to list jobs, mpijob end JOB to end a job, and mpijob doctor HOST to check a host"}
	},
}

const apstatHelp = `apstat [-a | -n | -p | -A JOB] [-v] [options] [HOST...]

  -a      list running jobs: mpijob ps (the default)
  -n      check hosts: mpijob doctor
  -p      list waiting requests: mpijob queue
  -A JOB  print the state of a job, and what its ranks do: mpijob status JOB
  -v      print more messages

apstat accepts the same options and hosts as mpijob. mpijob help lists them.
`

const apkillHelp = `apkill [-SIG] JOB [options] [HOST...]

Without -SIG, this is mpijob end JOB. With -SIG, it is mpijob signal SIG JOB. apkill JOB SIG means the same as apkill -SIG JOB.
apkill accepts the same options and hosts as mpijob. mpijob help lists them.
`

// apstatCommands maps one-letter options of apstat to subcommands of mpijob.
var apstatCommands = map[rune]string{'a': "ps", 'n': "doctor", 'p': "queue", 'A': "status"}

// translateApstat translates the arguments of Cray's apstat to those of mpijob. For --help, it returns only help.
func translateApstat(args []string, table *option.JobTable) (words []string, help string, err error) {
	word, letter, id := "", 'a', ""
	var rest []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--help" || arg == "-h" {
			return nil, apstatHelp, nil
		}
		if !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--") || isOptionOf(table, arg) && len(arg) > 2 {
			rest = append(rest, arg)
			continue
		}
		for _, l := range arg[1:] {
			next := apstatCommands[l]
			switch {
			case l == 'v':
				rest = append(rest, "-v")
				continue
			case next == "":
				return nil, "", &usererr.Error{Text: fmt.Sprintf("apstat has no option -%c", l), Remedy: "-a lists jobs, -n checks hosts, -p lists waiting requests, -A JOB prints the state of a job"}
			case l == 'A' && id != "":
				return nil, "", &usererr.Error{Text: "-A is given twice, but apstat prints the state of only one job", Remedy: "run apstat once for each job"}
			case word != "" && word != next:
				return nil, "", &usererr.Error{Text: fmt.Sprintf("-%c and -%c cannot be used together", letter, l), Remedy: "use only one of them"}
			}
			word, letter = next, l
		}
		if word == "status" && id == "" {
			if i++; i == len(args) {
				return nil, "", &usererr.Error{Text: "-A: no job given", Remedy: "apstat -a lists jobs"}
			}
			id = args[i]
		}
	}
	switch word {
	case "":
		word = "ps"
	case "status":
		rest = slices.Insert(rest, 0, id)
	}
	return slices.Insert(rest, 0, word), "", nil
}

// translateApkill translates the arguments of Cray's apkill to those of mpijob. For --help, it returns only help.
func translateApkill(args []string, table *option.JobTable) (words []string, help string, err error) {
	signal := ""
	var rest []string
	for _, arg := range args {
		name := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(arg), "-"), "SIG")
		_, err := option.SignalNumbers(signalNumber).ParseSignal(name)
		isSignal := err == nil
		switch {
		case arg == "--help" || arg == "-h":
			return nil, apkillHelp, nil
		case isSignal && signal == "" && (strings.HasPrefix(arg, "-") || len(rest) == 1 && !strings.HasPrefix(rest[0], "-")):
			signal = name
		case strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && !isOptionOf(table, arg):
			return nil, "", &usererr.Error{Text: fmt.Sprintf("%s is not a signal", option.ShellQuote(arg)), Remedy: "use a name (-TERM, -USR1) or a number (-9)"}
		default:
			rest = append(rest, arg)
		}
	}
	if signal != "" {
		return slices.Insert(rest, 0, "signal", signal), "", nil
	}
	return slices.Insert(rest, 0, "end"), "", nil
}

// isOptionOf reports whether a word is an option of the table, possibly followed by "=VALUE".
func isOptionOf(table *option.JobTable, word string) bool {
	name, _, _ := strings.Cut(word, "=")
	return table.HasOption(name)
}

// translateStatus translates the arguments of a program in statusFrontEnds to those of mpijob. If they ask
// for help, it prints the help and sets done.
func translateStatus(args []string, table *option.JobTable, sys System) (words []string, done bool, err error) {
	words, help, err := statusFrontEnds[sys.frontEnd](args, table)
	if help != "" {
		_, err = io.WriteString(sys.Out, help)
	}
	return words, help != "", err
}
