package selftest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"remshell/text"
)

// A Step is a step of the self-test that a rank has completed or at which it has failed.
type Step string

const (
	Started Step = "started" // it has its streams, and the address of the next rank from PMI
	Linked  Step = "linked"  // it has tried to connect to the next rank
	Done    Step = "done"    // it has received SIGUSR1 and passed the token on
)

// A Report is a rank's report on a step of the self-test.
type Report struct {
	Step       Step
	Rank, Size int
	Host       string
	Err        string        `json:",omitempty"` // what went wrong
	Peer       string        `json:",omitempty"` // host of the next rank; empty: the rank itself cannot listen
	Address    string        `json:",omitempty"` // address of the next rank, or the one at which the rank cannot listen
	Input      string        `json:",omitempty"` // what rank 0 has read
	Took       time.Duration `json:",omitempty"` // time of the PMI exchange or, for rank 0, of the ring
}

// reportPrefix is the text at the beginning of a report. In mpiexec's output, a label of the rank may precede it.
const reportPrefix = "mpiexec-selftest "

// Input is the text that mpiexec sends to the standard input of rank 0, which checks the text.
const Input = "selftest"

// These constants limit how much of the ranks' output is kept.
const (
	maxReportBytes = 4 << 10 // of a line
	maxRanks       = 1 << 20 // of which reports are kept
)

// Results collects the ranks' reports. It is an io.Writer to which mpiexec writes the job's standard output.
type Results struct {
	linked chan bool

	mu        sync.Mutex // guards what follows
	line      []byte
	began     time.Time
	startTime time.Duration // time until the last rank had started
	size      int
	reports   map[Step]map[int]Report
}

// NewResults returns empty Results for a job that begins now.
func NewResults() *Results {
	return &Results{linked: make(chan bool, 1), began: time.Now(), reports: map[Step]map[int]Report{Started: {}, Linked: {}, Done: {}}}
}

// Linked returns a channel that delivers one value when every rank has tried to connect to the next rank. The
// value is true if all ranks have succeeded.
func (r *Results) Linked() <-chan bool { return r.linked }

// Write reads reports from the output of the ranks. It never returns an error.
func (r *Results) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte("\n"))
		r.line = append(r.line, piece[:min(len(piece), maxReportBytes-len(r.line))]...)
		if rest = after; ended {
			r.readReport(string(r.line))
			r.line = r.line[:0]
		}
	}
	return len(p), nil
}

// readReport records the report that a line contains. It ignores lines that are not reports.
func (r *Results) readReport(line string) {
	_, value, marked := strings.Cut(line, reportPrefix)
	var report Report
	if !marked || json.Unmarshal([]byte(value), &report) != nil {
		return
	}
	known := r.reports[report.Step]
	if known == nil || report.Rank < 0 || report.Rank >= report.Size || report.Size > maxRanks || r.size > 0 && report.Size != r.size {
		return
	}
	r.size = report.Size
	if _, twice := known[report.Rank]; twice {
		return
	}
	known[report.Rank] = report
	switch {
	case len(known) < r.size:
	case report.Step == Started:
		r.startTime = time.Since(r.began)
	case report.Step == Linked:
		r.linked <- len(r.failures()) == 0
	}
}

// failures returns a line for each rank that could not listen, or could not connect to the next rank.
func (r *Results) failures() (lines []string) {
	for rank := range r.size {
		report, found := r.reports[Linked][rank]
		at := ""
		if report.Address != "" {
			at = " at " + report.Address
		}
		switch {
		case !found || report.Err == "":
		case report.Peer == "":
			lines = append(lines, fmt.Sprintf("%s: rank %d cannot listen%s: %s", report.Host, rank, at, report.Err))
		default:
			lines = append(lines, fmt.Sprintf("%s: rank %d cannot connect to rank %d on %s%s: %s", report.Host, rank, (rank+1)%r.size, report.Peer, at, report.Err))
		}
	}
	return lines
}

// An Error says why a self-test has failed although all ranks have exited with code 0.
type Error struct {
	Text, Remedy string
	Lines        []string
}

func (e *Error) Error() string     { return e.Text }
func (e *Error) Hint() string      { return e.Remedy }
func (e *Error) Reasons() []string { return e.Lines }

// maxFailureLines is the maximum number of failures that are listed.
const maxFailureLines = 20

// Err returns why the self-test has failed, or nil if it passed.
func (r *Results) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if failed := r.failures(); len(failed) > 0 {
		lines := failed[:min(len(failed), maxFailureLines)]
		if more := len(failed) - len(lines); more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", more))
		}
		return &Error{Text: "selftest: ranks cannot connect to each other by TCP",
			Remedy: "open the ports between the hosts in their firewalls, as MPI needs, or name another network with -iface; for details, run: mpiexec --doctor HOSTS", Lines: lines}
	}
	for rank := range r.size {
		if report := r.reports[Done][rank]; report.Err != "" {
			return &Error{Text: fmt.Sprintf("selftest: %s: rank %d cannot pass on the message that goes around the ring: %s", report.Host, rank, report.Err), Remedy: "try again, or check the network with: mpiexec --doctor HOSTS"}
		}
	}
	if got := r.reports[Started][0].Input; r.size > 0 && got != Input {
		return &Error{Text: fmt.Sprintf("selftest: rank 0 read %q from its standard input, not %q", got, Input)}
	}
	if r.size == 0 || len(r.reports[Done]) < r.size {
		return &Error{Text: fmt.Sprintf("selftest: the output of ranks is missing: only %d of %d ranks have reported that they ended", len(r.reports[Done]), r.size)}
	}
	return nil
}

// Hosts returns the hosts of the ranks without duplicates, in the order of ranks.
func (r *Results) Hosts() (hosts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]bool)
	for rank := range r.size {
		if host := r.reports[Started][rank].Host; !seen[host] {
			seen[host] = true
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// Text returns the report about a self-test that has passed. hosts is a string that names the hosts.
func (r *Results) Text(hosts string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return fmt.Sprintf("selftest passed: %s on %s\n  start %s, PMI exchange %s, ring over TCP %s; standard input, output and signals work\n",
		text.Count(r.size, "rank"), hosts, durationText(r.startTime), durationText(r.reports[Started][0].Took), durationText(r.reports[Done][0].Took))
}

// durationText formats a duration in milliseconds if it is below 1 s, and in seconds otherwise.
func durationText(d time.Duration) string {
	if d >= time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.3g ms", float64(d.Microseconds())/1000)
}
