/*
Package doctor judges what was found out about hosts: what stands in the way of a job
there, and what to do about it (DIAG-5).

	job.Checkup per host --Judge--> Report: findings, equal ones once, with all their hosts
	                                   |--> Text, JSON, Code

A failure means that a job cannot use the host as it is, a warning that it may go wrong, a note that some jobs do.
The package reads nothing but its arguments; what to look for, package helper/diagnose
knows, and whom to ask, package launch/reserve.
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

// A Severity says how bad a finding is.
type Severity int

// The levels.
const (
	Fine Severity = iota
	Note
	Warning
	Failure
)

func (l Severity) String() string { return [...]string{"fine", "note", "warning", "failure"}[l] }

// MarshalText is the level's word.
func (l Severity) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// A Finding is something that is not as it should be. The code is for programs and does
// not change.
type Finding struct {
	Level  Severity `json:"level"`
	Code   string   `json:"code"`
	Hosts  []string `json:"hosts"` // none: the machine from which jobs are launched, or the job
	Text   string   `json:"text"`
	Remedy string   `json:"remedy"`

	// Reasons are lines below the text, if the job would be refused.
	Reasons []string `json:"reasons,omitempty"`

	aboutJob bool            // it is about the job as a whole
	detail   usererr.Details // what the text leaves out, as it differs between the hosts
}

// A Report is all there is to say.
type Report struct {
	Findings []Finding // failures first, then warnings and notes, each in the order of the hosts
	Hosts    []job.HostDiagnosis
	Next     string // the command to type next, which asks again if there are failures; empty: nothing
}

// Diagnose finds what is wrong. here is of the machine from which jobs are launched: its own look at its login, and other defects that
// were found there. If that machine is one of the hosts, the look is nil.
func Diagnose(checkups []job.HostDiagnosis, here *job.NodeDiagnosis, defects ...job.Defect) Report {
	found := checkLaunchingHost(here, defects)
	for _, c := range checkups {
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
		if len(checkups) > 1 {
			found = append(found, checkHostName(c)...)
		}
		if len(checkups) > 1 || !c.Local { // here jobs share CPUs
			found = append(found, checkClaimed(c)...)
		}
		found = append(found, checkMPILibrary(c, len(checkups) > 1)...)
	}
	found = append(found, compareHosts(checkups)...)
	return Report{Findings: sortBySeverity(mergeEqual(found)), Hosts: checkups}
}

func sortBySeverity(found []Finding) []Finding {
	slices.SortStableFunc(found, func(a, b Finding) int { return int(b.Level) - int(a.Level) })
	return found
}

// WithRefusal adds a failure if the job would be refused, or a warning if it would wait. If err is nil, the report stays as it is.
func (r Report) WithRefusal(err error) Report {
	if err == nil {
		return r
	}
	f := Finding{Level: Failure, Code: "plan", Hosts: []string{}, Text: err.Error(), Remedy: usererr.Hint(err), Reasons: usererr.Reasons(err), aboutJob: true}
	var failed *plan.Error
	if errors.As(err, &failed) {
		f.Code = failed.Code
		if failed.QueuePosition > 0 {
			f.Level, f.Text = Warning, fmt.Sprintf("waits at position %d of the queue: %s", failed.QueuePosition, f.Text)
		}
	}
	r.Findings = sortBySeverity(append(r.Findings, f))
	return r
}

// remedies are for failures that bring none, by the codes of packages transport and sshx.
var remedies = map[string]string{
	"unknown-name": "check the spelling, or give it a HostName in the configuration of ssh, or a line in /etc/hosts",
	"unreachable":  "is it switched on? see ping and ip route, and whether a firewall drops what goes to its ssh port",
	"refused":      "start sshd there, or give its port in the configuration of ssh: Port N",
	"busy":         "raise MaxStartups in its sshd_config, or lower --fanout",
	"mismatch":     "see what its sshd offers: ssh -vv HOST true; update the older side",
	"session":      "see what its login shell does: ssh HOST /bin/sh -c true",
	"lost":         "try again with -vv; its sshd writes to the system log why it ends connections",
	"config":       "correct that line, or use -launcher-exec ssh",
	"missing":      "install it there, or name it by its full path",
}

// defaultRemedy is what to do about everything else.
const defaultRemedy = "see with -vv how far it came"

// newFinding is a finding of one host.
func newFinding(c job.HostDiagnosis, level Severity, code, text, remedy string) Finding {
	return Finding{Level: level, Code: code, Hosts: []string{c.Node}, Text: text, Remedy: remedy}
}

// mergeEqual says equal things once. The remedy is that of the first host.
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

// WorstLevel is the worst level of all findings; Fine, if there are only notes.
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

// ExitCode is the exit code: 0 all is fine, 1 there are warnings, failure there are failures.
func (r Report) ExitCode(failure int) int {
	switch r.WorstLevel() {
	case Failure:
		return failure
	case Warning:
		return 1
	}
	return 0
}

// foldHosts folds names: n[1-3].
func foldHosts(names []string) string { return hostlist.Fold(names) }
