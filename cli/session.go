package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"remshell/hostlist"
	"remshell/job"
	"remshell/launch"
)

// A Universe is the number of processes that MPI programs are told would fit.
type Universe string

func (u *Universe) UnmarshalText(text []byte) error {
	*u = Universe(strings.ToUpper(string(text)))
	if *u == "SYSTEM" || *u == "INFINITE" {
		return nil
	}
	if err := checkNumber(string(text), 1); err != nil {
		return fmt.Errorf("%w; nor SYSTEM or INFINITE", err)
	}
	return nil
}

// size is what a request says of it.
func (u Universe) size() int {
	if u == "SYSTEM" {
		return job.SystemSize
	}
	n, _ := strconv.Atoi(string(u)) // checked; 0 for INFINITE
	return n
}

// hostFinder finds hosts that a program names when it spawns others: in the notations of
// -host and -hostfile, and known to the cluster file or not.
func hostFinder(j JobOptions, sc scene) launch.Find {
	return func(list, file string) ([]job.NodeDef, error) {
		var entries []hostlist.Entry
		var err error
		switch {
		case file == "-":
			return nil, errors.New("standard input is no host file here")
		case file != "":
			entries, err = hostlist.ReadFile(file, sc.open, meaningless)
		default:
			var expr HostExpr
			err = expr.UnmarshalText([]byte(list))
			entries = expr
		}
		if err == nil {
			entries, err = hostlist.Join(entries)
		}
		if err != nil {
			return nil, err
		}
		return sc.listed(entries, j)
	}
}
