package hang

import (
	"fmt"
	"time"

	"remshell/job"
	"remshell/launch"
	"remshell/mpifault"
	"remshell/text"
)

// headline returns the first line of a report: for how long the job has made no progress, and what most ranks do.
func headline(quiet time.Duration, s launch.StackSummary) string {
	counts := make(map[string]int)
	all, waiting, most := 0, 0, ""
	for i, call := range s.Calls {
		n := len(s.Report.Groups[i].Ranks)
		all += n
		if state := s.Report.Groups[i].State; state == job.StackStopped || state == job.StackEnded {
			continue
		}
		waiting += n
		if call == "" {
			continue
		}
		if counts[call] += n; most == "" || counts[call] > counts[most] {
			most = call
		}
	}
	n, where := waiting, "outside of MPI"
	if most != "" {
		n, where = counts[most], "in "+most
	}
	line := "no progress for " + quietText(quiet) + ": "
	switch {
	case waiting == 0:
		return line + "all ranks are stopped or have ended"
	case all == 1:
		return line + "the rank waits " + where
	case n == all:
		return line + fmt.Sprintf("all %d ranks wait %s", all, where)
	case n == 1:
		return line + fmt.Sprintf("1 of %s waits %s", text.Count(all, "rank"), where)
	}
	return line + fmt.Sprintf("%d of %s wait %s", n, text.Count(all, "rank"), where)
}

// finalizeFault returns the known fault of the program's MPI library with the given code, if this fault explains why
// all ranks are in MPI_Finalize. It returns the zero Fault otherwise.
func finalizeFault(s launch.StackSummary, nodes int, code string) mpifault.Fault {
	fault, known := mpifault.ByCode(code)
	if !known || nodes < 2 || len(s.Calls) == 0 {
		return mpifault.Fault{}
	}
	for i, call := range s.Calls {
		if state := s.Report.Groups[i].State; call != "MPI_Finalize" && state != job.StackEnded || state == job.StackStopped {
			return mpifault.Fault{}
		}
	}
	return fault
}

// advice returns lines about a known fault, or "" if fault is the zero Fault.
func advice(fault mpifault.Fault) string {
	if fault.Code == "" {
		return ""
	}
	return "  known fault: " + fault.Text("the program") + "\n  " + fault.Remedy + "\n"
}

// quietText formats d in seconds, or in minutes if d is long.
func quietText(d time.Duration) string {
	if d < 10*time.Minute {
		return fmt.Sprintf("%.0f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}
