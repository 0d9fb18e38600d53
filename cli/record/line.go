package record

import (
	"encoding/json"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// An AccountingRecord is the record of a job in the accounting file of a cluster, one line of JSON (accounting_file,
// rule RM-53). It does not contain arguments of programs, because the file may be readable for users who cannot see
// the processes.
type AccountingRecord struct {
	Version  int        `json:"version"`
	Job      job.ID     `json:"job"`
	User     string     `json:"user"`
	UID      int        `json:"uid"`
	From     string     `json:"launcher_host"` // the launching host
	Class    string     `json:"class,omitempty"`
	RM       *job.RM    `json:"rm,omitempty"`
	Programs []string   `json:"programs"` // one for each app context
	Ranks    int        `json:"ranks"`    // with spawned ranks
	Hosts    string     `json:"hosts"`    // such as n[1-4]
	Began    time.Time  `json:"began"`
	End      *time.Time `json:"end"`
	Code     *int       `json:"code"`
	Cause    string     `json:"cause,omitempty"`
	*JobUsage
}

// AccountingLine returns the line for the accounting file. If no rank was started, line is nil and ran is false.
func (r Run) AccountingLine(req job.Request, class string) (line []byte, ran bool) {
	if r.JobUsage == nil {
		return nil, false
	}
	l := AccountingRecord{Version: 1, Job: req.Job, User: req.User.Name, UID: req.User.UID, From: req.Queue.LauncherHost, Class: class, RM: r.RM,
		Began: r.Began, End: r.End, Code: r.Code, Cause: r.Cause, JobUsage: r.JobUsage}
	for _, app := range req.Apps {
		l.Programs = append(l.Programs, app.Argv[0])
	}
	var names []string
	for _, h := range r.Usage {
		names, l.Ranks = append(names, h.Node), l.Ranks+h.Ranks
	}
	l.Hosts = hostlist.Fold(names)
	line, err := json.Marshal(l) // JSON has no line break inside
	return append(line, '\n'), err == nil
}
