package cli

import (
	"fmt"
	"strings"

	"remshell/job"
	"remshell/reach"
	"remshell/sshx"
)

// way tells people how a node would be reached (DIAG-1). It contacts nobody. The host
// is named only where it is another than the node's name, so that equal ways are equal.
func (d *dialer) way(node job.NodeDef) string {
	switch {
	case d.guard != nil || node.Local:
		return "this machine"
	case d.fork:
		return "out of reach of -launcher fork"
	}
	d.mu.Lock()
	d.nodes[node.Name] = node
	d.mu.Unlock()
	if d.command != nil {
		argv, err := reach.Argv(d.command.Template, d.command.Args, d.place(node.Name), d.command.Timeout)
		if err != nil {
			return err.Error()
		}
		return "by " + strings.Join(argv, " ")
	}
	t, err := d.resolve(node.Name)
	if err != nil {
		return explain(err)
	}
	text := "ssh"
	if !strings.EqualFold(t.HostName, node.Name) {
		text += " to " + t.HostName
	}
	if t.Port != 22 {
		text += fmt.Sprintf(" port %d", t.Port)
	}
	text += " as " + t.User
	return text + hops(t)
}

// hops tells what lies between.
func hops(t sshx.Target) string {
	if t.ProxyCommand != "" {
		return " through " + t.ProxyCommand
	}
	text := ""
	for i, hop := range t.Via {
		text += map[bool]string{true: " through ", false: ", "}[i == 0] + hop.Alias
	}
	return text
}
