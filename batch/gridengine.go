package batch

import (
	"fmt"
	"strings"

	"remshell/pin"
)

// Grid Engine writes a file for the master task of a parallel environment. A JOB_ID need not be
// its own (rm-integration.md 2.4).
var sge = manager{
	name:  "sge",
	needs: "JOB_ID",
	inside: func(w World) bool {
		return w.set("JOB_ID") && (w.set("PE_HOSTFILE") || w.set("SGE_TASK_ID") || w.set("SGE_ROOT"))
	},
	job: func(w World) string {
		if task := w.value("SGE_TASK_ID"); task != "" && task != "undefined" {
			return w.value("JOB_ID") + "." + task
		}
		return w.value("JOB_ID")
	},
	read: sgeRead,
}

// sgeRead has this host alone where there is no parallel environment.
func sgeRead(w World, _ Wish) (Allocation, error) {
	if !w.set("PE_HOSTFILE") {
		n := max(1, w.count("NSLOTS"))
		if n > maxCount {
			return Allocation{}, wrong("NSLOTS", fmt.Errorf("%s is not a slot count", quoted(w.value("NSLOTS"))))
		}
		return Allocation{Source: "NSLOTS", Hosts: []Host{{Name: "localhost", Tasks: n}}}, nil
	}
	l, err := w.file("PE_HOSTFILE", FormPE)
	a := Allocation{Source: "PE_HOSTFILE", Hosts: l.all()}
	if err != nil {
		return a, err
	}
	a.Warnings = w.counted("NSLOTS", a.Source, a.Tasks())
	return a, nil
}

// peLine is a host, its slots, a queue, and the CPUs in pairs of socket and core, from 0.
func (l *list) peLine(line int, words []string) error {
	if len(words) > 4 {
		return fmt.Errorf("unexpected %s after processors", quoted(words[4]))
	}
	if err := l.counted(true)(line, words[:min(2, len(words))]); err != nil {
		return err
	}
	at := l.at[key(words[0])]
	h := &l.hosts[at]
	if len(words) < 4 || words[3] == "UNDEFINED" || words[3] == "<NULL>" {
		h.Bare = true
		return nil
	}
	for pair := range strings.SplitSeq(words[3], ":") {
		socket, core, ok := strings.Cut(pair, ",")
		_, ok1 := number(socket)
		_, ok2 := number(core)
		if !ok || !ok1 || !ok2 {
			return fmt.Errorf("%s is not SOCKET,CORE", quoted(pair))
		}
	}
	l.lists.add(at, words[3])
	h.By = pin.SocketCores
	return nil
}
