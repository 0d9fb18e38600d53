/*
Package doctor finds problems in the diagnoses of hosts: what would prevent a job from running on a host, and how to
fix that (rule DIAG-5).

	job.HostDiagnosis per host --Diagnose--> Report: findings, equal ones once, with all their hosts
	                                            |--> Text, JSON, ExitCode

A failure means that a job cannot use the host. A warning means that a job may fail on the host. A note means that
some jobs may fail. The package does no I/O. Package helper/diagnose collects the data on each host, and package
launch/reserve connects to the hosts.
*/
package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"remshell/hostlist"
	"remshell/job"
	"remshell/plan"
	"remshell/usererr"
)

// Severity is the level of a finding.
type Severity int

// These are the levels of findings, from the least to the most severe.
const (
	Fine Severity = iota
	Note
	Warning
	Failure
)

func (l Severity) String() string { return [...]string{"fine", "note", "warning", "failure"}[l] }

// MarshalText returns the level as a word.
func (l Severity) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Finding is a problem of one or more hosts. Code is for programs and does not change between releases.
type Finding struct {
	Level  Severity `json:"level"`
	Code   string   `json:"code"`
	Hosts  []string `json:"hosts"` // empty: the machine that launches jobs, or the job
	Text   string   `json:"text"`
	Remedy string   `json:"remedy"`

	// Reasons are further lines below Text; set if the job would be refused.
	Reasons []string `json:"reasons,omitempty"`

	aboutJob bool            // it is about the job as a whole
	detail   usererr.Details // differing details of the hosts, which are not in Text
}

// A Report is the result of diagnosing all hosts.
type Report struct {
	Findings []Finding // failures first, then warnings and notes, each in the order of hosts
	Hosts    []job.HostDiagnosis
	Next     string // command to type next; after failures it repeats the diagnosis; empty: none
}

// Diagnose returns a report with the findings about all hosts. launcher is the diagnosis of the machine on which
// mpiexec runs, or nil if that machine is one of the hosts. defects are further problems that were found on that
// machine.
func Diagnose(hosts []job.HostDiagnosis, launcher *job.NodeDiagnosis, defects ...job.Defect) Report {
	found := checkLaunchingHost(launcher, defects)
	for _, c := range hosts {
		if c.Failure.Text != "" {
			f := c.Failure
			failure := newFinding(c, Failure, f.Code, f.Text, cmp.Or(f.Remedy, remedies[f.Code], defaultRemedy))
			failure.detail.Add(c.Node, c.Detail)
			found = append(found, failure)
			continue
		}
		for _, check := range checks {
			found = append(found, check(c)...)
		}
		if len(hosts) > 1 {
			found = append(found, checkHostName(c)...)
		}
		if len(hosts) > 1 || !c.Local { // on this machine jobs share CPUs
			found = append(found, checkClaimed(c)...)
		}
		found = append(found, checkMPILibrary(c, len(hosts) > 1)...)
	}
	found = append(found, compareHosts(hosts)...)
	return Report{Findings: sortBySeverity(mergeEqual(found)), Hosts: hosts}
}

func sortBySeverity(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int { return int(b.Level) - int(a.Level) })
	return found
}

// WithRefusal returns the report with a finding about err, the error that would prevent the job from starting. The
// finding is a failure, or a warning if the job would wait in the queue. If err is nil, it adds nothing.
func (r Report) WithRefusal(err error) Report {
	if err == nil {
		return r
	}
	f := Finding{Level: Failure, Code: "plan", Hosts: []string{}, Text: err.Error(), Remedy: usererr.Hint(err), Reasons: usererr.Reasons(err), aboutJob: true}
	var failed *plan.Error
	if errors.As(err, &failed) {
		f.Code = failed.Code
		if failed.QueuePosition > 0 {
			f.Level, f.Text = Warning, fmt.Sprintf("the job would wait at position %d of the queue: %s", failed.QueuePosition, f.Text)
		}
	}
	r.Findings = sortBySeverity(append(r.Findings, f))
	return r
}

// remedies maps error codes of packages transport and sshx to advice for the user. It is used for failures that
// have no advice of their own.
var remedies = map[string]string{
	"unknown-name": "check the spelling of the name, or add the host to the ssh configuration (HostName) or to /etc/hosts",
	"unreachable":  "check that the host is switched on (ping, ip route) and that no firewall drops packets to its ssh port",
	"refused":      "start sshd on the host, or set its port in the ssh configuration: Port N",
	"busy":         "raise MaxStartups in sshd_config on the host, or lower --fanout",
	"mismatch":     "update ssh or sshd, whichever is older; ssh -vv HOST true shows the algorithms that sshd offers",
	"session":      "to see what the login shell does: ssh HOST /bin/sh -c true",
	"lost":         "try again with -vv, and look in the system log of the host for the reason why sshd closed the connection",
	"config":       "correct that line, or use -launcher-exec ssh",
	"missing":      "install the program on the host, or give its full path",
}

// defaultRemedy is the advice for all failures that are not in remedies and have no advice of their own.
const defaultRemedy = "run mpiexec with -vv to see the last step before the failure"

func newFinding(c job.HostDiagnosis, level Severity, code, text, remedy string) Finding {
	return Finding{Level: level, Code: code, Hosts: []string{c.Node}, Text: text, Remedy: remedy}
}

// mergeEqual merges findings that differ only in their hosts. It keeps the remedy of the first host.
func mergeEqual(found []Finding) []Finding {
	var folded []Finding
	for _, f := range found {
		i := slices.IndexFunc(folded, func(o Finding) bool { return o.Level == f.Level && o.Code == f.Code && o.Text == f.Text })
		if i < 0 {
			f.Hosts = slices.Clone(f.Hosts)
			folded = append(folded, f)
			continue
		}
		folded[i].detail.Merge(f.detail)
		for _, host := range f.Hosts {
			if !slices.Contains(folded[i].Hosts, host) {
				folded[i].Hosts = append(folded[i].Hosts, host)
			}
		}
	}
	return folded
}

// WorstLevel returns the highest level of all findings. If that is Note, it returns Fine.
func (r Report) WorstLevel() Severity {
	worst := Fine
	for _, f := range r.Findings {
		worst = max(worst, f.Level)
	}
	if worst == Note {
		return Fine
	}
	return worst
}

// ExitCode returns the exit code of --doctor. It returns 0 if there is no problem, 1 if there are warnings but no
// failures, and the argument failure if there are failures.
func (r Report) ExitCode(failure int) int {
	switch r.WorstLevel() {
	case Failure:
		return failure
	case Warning:
		return 1
	}
	return 0
}

// foldHosts returns host names as a folded list, such as "n[1-3]".
func foldHosts(names []string) string { return hostlist.Fold(names) }
