package doctor

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"remshell/format"
	"remshell/job"
	"remshell/text"
)

// Text returns the report for people: the hosts, then the findings, then a summary. Hosts with the same description
// share a line. Lines are wrapped at width characters, except for the command that the user can type next. If width is
// 0, lines are not wrapped.
func (r Report) Text(width int) string {
	var b strings.Builder
	line := func(indent int, line string) {
		b.WriteString(strings.Join(text.WrapLine(line, width, indent), "\n") + "\n")
	}
	rows := r.hostRows()
	var table [][]string
	column := 0 // at which the description of hosts begins
	for _, row := range rows {
		names := foldHosts(row.hosts)
		table = append(table, []string{names, row.text + row.loginText()})
		column = max(column, utf8.RuneCountInString(names)+2)
	}
	for row := range strings.Lines(text.Columns("", table)) {
		line(column, strings.TrimSuffix(row, "\n"))
	}
	const indent = 9 // of lines below a finding
	for _, f := range r.Findings {
		b.WriteByte('\n')
		line(indent+2, fmt.Sprintf("%-7s  %s: %s", f.Level, f.hostsText(), format.EscapeSentence(f.Text+f.detail.String())))
		for _, reason := range f.Reasons {
			line(indent+4, strings.Repeat(" ", indent+2)+format.EscapeSentence(reason))
		}
		if f.Remedy != "" {
			line(indent+2, strings.Repeat(" ", indent)+format.EscapeSentence(f.Remedy))
		}
	}
	if len(rows) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString(r.summaryLine() + "\n")
	switch {
	case r.Next == "":
	case r.WorstLevel() == Failure:
		b.WriteString("After that, run the check again: " + r.Next + "\n")
	default:
		b.WriteString("Next: " + r.Next + "\n")
	}
	return b.String()
}

// hostsText returns the hosts of a finding as a folded list, or "the job" or "this machine" if the finding is about
// one of these.
func (f Finding) hostsText() string {
	if f.aboutJob {
		return "the job"
	}
	if len(f.Hosts) == 0 {
		return "this machine"
	}
	return foldHosts(f.Hosts)
}

// A hostRow is one line of the report. It stands for all hosts for which describeHost returns the same text.
type hostRow struct {
	text               string
	hosts              []string
	minLogin, maxLogin time.Duration // shortest and longest login; 0: there was none
}

// hostRows groups hosts with the same description, in the order of the first host of each group.
func (r Report) hostRows() []hostRow {
	var rows []hostRow
	for _, c := range r.Hosts {
		description := describeHost(c)
		i := slices.IndexFunc(rows, func(r hostRow) bool { return r.text == description })
		if i < 0 {
			i = len(rows)
			rows = append(rows, hostRow{text: description, minLogin: c.Login, maxLogin: c.Login})
		}
		rows[i].hosts = append(rows[i].hosts, c.Node)
		rows[i].minLogin, rows[i].maxLogin = min(rows[i].minLogin, c.Login), max(rows[i].maxLogin, c.Login)
	}
	return rows
}

// loginText returns the part of the line that says how long a login takes. It returns "" if mpiexec has not logged in
// to any of these hosts.
func (r hostRow) loginText() string {
	from, to := fmt.Sprintf("%.2f", r.minLogin.Seconds()), fmt.Sprintf("%.2f", r.maxLogin.Seconds())
	switch {
	case r.maxLogin == 0:
		return ""
	case from == to:
		return ", a login takes " + to + " s"
	}
	return ", a login takes " + from + " to " + to + " s"
}

// describeHost returns a description of a host's properties, such as its CPUs.
func describeHost(c job.HostDiagnosis) string {
	if c.Failure.Text != "" {
		return "cannot be used"
	}
	parts := []string{describeCPUs(c)}
	if c.Probe.Memory.Total > 0 {
		parts = append(parts, text.FormatBytes(c.Probe.Memory.Total)+" of memory")
	}
	// A measured speed differs each time, and would keep equal hosts from sharing a line.
	if t := c.Diagnosis.Attributes; t.Speed > 0 && t.SpeedQuality != job.SpeedMeasured {
		parts = append(parts, fmt.Sprintf("%d MHz (%s)", t.Speed, t.SpeedQuality))
	}
	if t := c.Diagnosis.Attributes; t.Networks != nil {
		parts = append(parts, "networks "+format.EscapeSentence(strings.Join(t.Networks, " ")))
	}
	if c.Diagnosis.DevShm.Total > 0 {
		parts = append(parts, text.FormatBytes(c.Diagnosis.DevShm.Total)+" in /dev/shm")
	}
	if c.Diagnosis.PMIOffer != "" {
		offer, why, _ := strings.Cut(c.Diagnosis.PMIOffer, " ")
		parts = append(parts, "ranks of the program can use "+job.PMIOffer(offer).Description()+" "+format.EscapeSentence(why))
	}
	if c.Local {
		parts = append(parts, "this machine")
	}
	if jobs := len(c.Ledger.Claims); jobs > 0 {
		parts = append(parts, text.Count(jobs, "job")+" on it")
	}
	if most := c.Diagnosis.Rules.MaxRanks; c.Diagnosis.Rules.Forbidden == "" && most >= 0 && most < len(c.Probe.Topology.Cores) {
		parts = append(parts, "at most "+text.Count(most, "rank")+" at a time (the administrator has set maxproc)")
	}
	if only := c.Ledger.Settings.Allow; only.Users != nil || only.Groups != nil {
		only.MaxProcs = nil // named above
		parts = append(parts, format.EscapeSentence(only.Text()))
	}
	if c.Ledger.Path != "" && c.Ledger.Err == "" && c.Diagnosis.Ledger.Err == "" { // else a finding says why there are no claims
		// The base name contains the machine's identity, and would keep equal hosts from sharing a line.
		parts = append(parts, "claims in "+format.EscapeField(path.Dir(c.Ledger.Path)))
	}
	return strings.Join(parts, ", ")
}

// describeCPUs returns a string with the number of cores and, if it is larger, the number of hardware threads.
func describeCPUs(c job.HostDiagnosis) string {
	cores, threads := len(c.Probe.Topology.Cores), 0
	for _, core := range c.Probe.Topology.Cores {
		threads += len(core.CPUs)
	}
	words := text.Count(cores, "core")
	if threads > cores {
		words += fmt.Sprintf(" with %s", text.Count(threads, "thread"))
	}
	return words
}

// summaryLine returns the last line of the report, which summarizes the findings.
func (r Report) summaryLine() string {
	failures, warnings, down := 0, 0, 0
	for _, f := range r.Findings {
		switch f.Level {
		case Failure:
			failures++
		case Warning:
			warnings++
		}
	}
	for _, c := range r.Hosts {
		if c.Failure.Text != "" {
			down++
		}
	}
	if failures+warnings == 0 {
		return text.Count(len(r.Hosts), "host") + ": all fine"
	}
	return fmt.Sprintf("%s, %d reached: %s, %s", text.Count(len(r.Hosts), "host"), len(r.Hosts)-down,
		text.Count(failures, "failure"), text.Count(warnings, "warning"))
}

// A jsonHost is a host in the JSON report.
type jsonHost struct {
	Host       string   `json:"host"`
	Reached    bool     `json:"reached"`
	Hostname   string   `json:"hostname,omitempty"`
	Arch       string   `json:"arch,omitempty"`
	Address    string   `json:"address,omitempty"`
	MTU        int      `json:"mtu,omitempty"`
	Cores      int      `json:"cores"`
	Memory     int64    `json:"memory_bytes"`
	Shared     int64    `json:"dev_shm_bytes"`
	Speed      int      `json:"speed_mhz,omitempty"`
	Quality    string   `json:"speed_quality,omitempty"` // nominal, max or measured
	Networks   []string `json:"networks,omitempty"`
	NetSpeed   int      `json:"network_mbps,omitempty"`
	CPUModel   string   `json:"cpu_model,omitempty"`
	GPUModels  []string `json:"gpu_models,omitempty"`
	Login      float64  `json:"login_seconds"`
	ClockAhead float64  `json:"clock_ahead_seconds"`
	Jobs       int      `json:"jobs"`
	Ledger     string   `json:"ledger,omitempty"` // file with the claims of jobs
}

// JSON returns the report as JSON on one line.
func (r Report) JSON() string {
	list := []jsonHost{}
	for _, c := range r.Hosts {
		t := c.Diagnosis.Attributes
		list = append(list, jsonHost{
			Speed: t.Speed, Quality: string(t.SpeedQuality), Networks: t.Networks, NetSpeed: t.NetSpeed, CPUModel: t.CPUModel, GPUModels: t.GPUModels,
			Host: c.Node, Reached: c.Failure.Text == "", Hostname: c.Probe.Hostname, Arch: c.Probe.Arch,
			Address: c.Diagnosis.Address, MTU: c.Diagnosis.MTU, Cores: len(c.Probe.Topology.Cores),
			Memory: c.Probe.Memory.Total, Shared: c.Diagnosis.DevShm.Total,
			Login: c.Login.Seconds(), ClockAhead: c.Skew.Seconds(), Jobs: len(c.Ledger.Claims), Ledger: c.Ledger.Path,
		})
	}
	text, err := json.Marshal(struct {
		Version  int        `json:"version"`
		Verdict  Severity   `json:"verdict"`
		Hosts    []jsonHost `json:"hosts"`
		Findings []Finding  `json:"findings"`
		Next     string     `json:"next,omitempty"`
	}{1, r.WorstLevel(), list, append([]Finding{}, r.Findings...), r.Next})
	if err != nil { // there is nothing in it that could fail
		panic(err)
	}
	return string(format.EscapeJSON(text)) + "\n"
}
