package record

import (
	"encoding/json"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// An AccountingRecord is what the accounts of a cluster keep of a job (accounting_file, RM-53): one line of JSON.
// Arguments of programs are left out, since the file may be open to more people than those of a process.
type AccountingRecord struct {
	Version  int        `json:"version"`
	Job      job.ID     `json:"job"`
	User     string     `json:"user"`
	UID      int        `json:"uid"`
	From     string     `json:"from"` // the launching host
	Class    string     `json:"class,omitempty"`
	RM       *job.RM    `json:"rm,omitempty"`
	Programs []string   `json:"programs"` // one for each section
	Ranks    int        `json:"ranks"`    // spawned ones are counted
	Hosts    string     `json:"hosts"`    // as n[1-4]
	Began    time.Time  `json:"began"`
	End      *time.Time `json:"end"`
	Code     *int       `json:"code"`
	Cause    string     `json:"cause,omitempty"`
	*JobUsage
}

// AccountingLine is what the accounts keep of a run that is over; false: nothing, since no rank was started.
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
	line, err := json.Marshal(l) // has no line end inside
	return append(line, '\n'), err == nil
}
