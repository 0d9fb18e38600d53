package batch

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/pin"
	"remshell/usererr"
)

// flux describes Flux. mpiexec runs the program flux to get the hosts of the job (rm-integration.md 2.5).
//
// The Flux broker on each host other than this one starts a helper there. This follows Flux's manuals; nobody has tried
// it yet:
//
//	mpiexec --- flux exec ...... flux-broker --- /bin/sh --- reaper --- helper --- ranks
//	         '- helper --- ranks                 here: below the broker or the shell of the script
//
// Brokers obey only the owner of their Flux instance. So the starter flux exec works in scripts of flux batch and in
// shells of flux alloc, which have an instance of their own. When the instance ends, it ends the processes that it
// has started.
var flux = System{
	Name: "flux", Title: "Flux", Within: "start mpiexec in a job script (flux batch), or in an interactive job (flux alloc)", Untried: true,

	Variable: "FLUX_JOB_ID",
	Inside: func(w Inputs) bool {
		return w.set("FLUX_JOB_ID") || w.set("FLUX_URI") && w.set("FLUX_ENCLOSING_ID")
	},
	Job: func(w Inputs) string {
		_, id := w.first("FLUX_JOB_ID", "FLUX_ENCLOSING_ID")
		return id
	},
	Copies: func(w Inputs) (starter string) {
		n := w.count("FLUX_JOB_SIZE")
		if !w.set("FLUX_TASK_RANK") || n < 2 {
			return ""
		}
		return fmt.Sprintf("flux run -n %d", n)
	},
	Nested: true,
	Hosts:  fluxHosts,

	Starter: &Starter{
		Program: "flux",
		Argv:    fluxExec,
		Fanout:  16, StartTimeout: 30 * time.Second,
		EndGrace: 700 * time.Millisecond, EndsAtSIGTERM: true,
		DefaultRemedy: `check that "flux exec -r RANK true" works here, or use -launcher ssh`,
		ErrorLine:     func(stderr string) string { return lastOf(stderr, nil, []string{"flux-exec: ", "Error: "}) },
	},

	KillDelay: 5 * time.Second,
	Holder:    Holder{Processes: []string{"flux-shell", "flux-broker"}, Variables: []string{"FLUX_JOB_ID", "FLUX_URI"}},
	OfRank:    []string{"FLUX_TASK_*", "FLUX_JOB_ID", "FLUX_PMI_LIBRARY_PATH"},
}

// fluxHosts asks Flux for the hosts and cores of the job in which mpiexec runs. If mpiexec does not run in a job,
// it asks for all hosts of the Flux instance.
func fluxHosts(w Inputs, _ Options) (Allocation, error) {
	args, source := []string{"resource", "R"}, "flux resource R"
	if id := w.value("FLUX_JOB_ID"); id != "" {
		if strings.HasPrefix(id, "-") {
			return Allocation{}, newUnreadError("FLUX_JOB_ID: " + quoted(id) + " is not a job ID of Flux")
		}
		args, source = []string{"job", "info", id, "R"}, "flux job info"
	}
	if w.Run == nil {
		return Allocation{}, newUnreadError("mpiexec cannot run the program \"flux\" here")
	}
	text, err := w.Run("flux", args...)
	if err != nil {
		return Allocation{}, newUnreadError(err.Error())
	}
	a, err := fluxResources(text)
	if a.Source = source; err != nil {
		return a, &usererr.Error{Text: fmt.Sprintf("%s: %v", source, err)}
	}
	return a, nil
}

// resources holds the data that mpiexec needs from R, which is Flux's description of a job's resources in JSON (RFC
// 20, version 1).
type resources struct {
	Version   int `json:"version"`
	Execution struct {
		Lite []struct {
			Rank     string            `json:"rank"`
			Children map[string]string `json:"children"`
		} `json:"R_lite"`
		Nodes      []string `json:"nodelist"`
		Expiration float64  `json:"expiration"`
	} `json:"execution"`
}

// fluxResources parses R, Flux's description of a job's resources. The k-th broker rank
// in R runs on the k-th host in R. Each core is one task.
func fluxResources(text string) (a Allocation, err error) {
	var r resources
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return a, fmt.Errorf("the output of flux is not valid JSON: %w", err)
	}
	if r.Version != 1 {
		return a, fmt.Errorf("the output of flux has version %d, but mpiexec reads only version 1", r.Version)
	}
	var names []string
	for _, folded := range r.Execution.Nodes {
		more, err := expandHostlist(folded)
		if err == nil && len(names)+len(more) > maxHosts {
			err = errTooMany
		}
		if err != nil {
			return a, fmt.Errorf("nodelist: %w", err)
		}
		names = append(names, more...)
	}
	if a.Hosts, err = r.hosts(names); err != nil {
		return a, err
	}
	if end := r.Execution.Expiration; end > 0 && end < maxNumber {
		a.End = time.Unix(int64(end), 0)
	}
	return a, nil
}

// hosts returns one Host for each name. r lists broker ranks with their cores and GPUs, and names contains the hosts of
// these ranks in the same order.
func (r *resources) hosts(names []string) ([]Host, error) {
	var l list
	rank := 0
	for _, row := range r.Execution.Lite {
		ranks, ok := setSize(row.Rank)
		if !ok {
			return nil, fmt.Errorf("%s is not a set of ranks", quoted(row.Rank))
		}
		cores, ok := setSize(row.Children["core"])
		if !ok {
			return nil, fmt.Errorf("the output of flux lists no cores for rank %s", row.Rank)
		}
		gpus := row.Children["gpu"]
		if _, ok := setSize(gpus); gpus != "" && !ok {
			return nil, fmt.Errorf("%s is not a set of GPUs", quoted(gpus))
		}
		for i := range ranks {
			if rank == len(names) {
				return nil, fmt.Errorf("the output of flux lists too few hosts for its ranks (%d)", len(names))
			}
			if err := l.add(Host{Name: names[rank], Tasks: cores, CPUs: cores, List: row.Children["core"], Numbering: pin.CoreNumbers, GPUs: gpus, Rank: nth(row.Rank, i)}); err != nil {
				return nil, err
			}
			rank++
		}
	}
	if len(l.hosts) == 0 {
		return nil, fmt.Errorf("the output of flux lists no cores")
	}
	return l.all(), nil
}

// fluxExec returns the command line that starts Shell on a host. flux exec selects the host by the rank of its
// broker (rule RM-30).
func fluxExec(c Call) []string {
	return slices.Concat([]string{c.Program, "exec", "-r", strconv.Itoa(c.Rank)}, c.ExtraArgs, []string{Shell})
}
