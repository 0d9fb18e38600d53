package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rs/zerolog"
	"golang.org/x/term"

	"remshell/cli/option"
	"remshell/cli/request"
	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/reach"
	"remshell/sshx"
)

// A dialer reaches each node in its way: this machine as a child, the others by our
// SSH client, or by the program that -launcher-exec names.
type dialer struct {
	self    reach.Self
	child   *reach.Child
	guard   []string       // set if this machine is the only node: how the guard is called
	command *reach.Command // nil: by ssh
	ssh     *reach.SSH
	client  *sshx.Dialer
	fork    bool // -launcher fork: this machine only

	timeoutGiven bool               // --connect-timeout
	options      []option.SSHOption // --ssh-option

	sys    System
	me     func() sshx.User             // who connects, found out once
	config func() (*sshx.Config, error) // read when the first host needs it, once
	mu     sync.Mutex                   // guards nodes
	nodes  map[string]job.NodeDef       // those being dialled, by name
}

// newDialer chooses the ways of a command line. With a guard there is one node, this one,
// and nothing else is made ready: half of such a job's time is our own start.
func newDialer(j option.Job, sys System, guard []string, log zerolog.Logger) (*dialer, error) {
	program, err := remoteShell(j)
	d := &dialer{
		guard: guard, sys: sys, nodes: make(map[string]job.NodeDef),
		fork: j.Launcher == "fork", timeoutGiven: j.ConnectTimeout > 0,
	}
	if err != nil || guard != nil {
		return d, err
	}
	if d.self, err = reach.This(); err != nil {
		return nil, err
	}
	d.me = sync.OnceValue(d.user)
	d.child = &reach.Child{Self: d.self, Env: request.HelperEnv(sys.Environ), Stay: sys.getenv("PBS_JOBID") != "" && !hasTerminal()}
	d.self = d.self.Ship(j.ShipHelper)
	d.options = j.SSHOptions
	if len(program) > 0 {
		args, err := programArgs(j, program)
		if err != nil {
			return nil, err
		}
		d.command = &reach.Command{Self: d.self, Template: program, Args: args, Place: d.place, Helper: d.helper,
			Timeout: connectTimeout(j), Retries: j.Retries, Fanout: j.Fanout, Log: log}
		return d, nil
	}
	d.client = &sshx.Dialer{Log: log, Timeout: j.ConnectTimeout.Duration(), Retries: j.Retries,
		Pacer: &sshx.Pacer{Fanout: j.Fanout}, AcceptNew: j.AcceptNewKeys, Ask: asker()}
	d.config = sync.OnceValues(d.readConfig)
	d.ssh = &reach.SSH{Self: d.self, Dialer: d.client, Resolve: d.resolve, Helper: d.helper}
	return d, nil
}

// remoteShell is the program that reaches hosts instead of our own SSH; empty: none.
func remoteShell(j option.Job) ([]string, error) {
	switch {
	case len(j.LauncherExec) > 0:
		return j.LauncherExec, nil
	case j.Launcher == "rsh":
		return []string{"rsh"}, nil
	case j.Launcher == "exec":
		return nil, &fault.Error{Text: "-launcher exec needs a command", Remedy: "give it with -launcher-exec 'COMMAND %h'"}
	case len(j.LauncherArgs) > 0:
		return nil, &fault.Error{Text: "-launcher-args are for a program; the built-in ssh has none",
			Remedy: "use --ssh-option, or -launcher-exec ssh"}
	}
	return nil, nil
}

// programArgs are what stands before our own arguments of a program that reaches hosts.
func programArgs(j option.Job, program []string) ([]string, error) {
	args := j.LauncherArgs[:len(j.LauncherArgs):len(j.LauncherArgs)]
	if len(j.SSHOptions) == 0 {
		return args, nil
	}
	if name := filepath.Base(program[0]); name != "ssh" {
		return nil, &fault.Error{Text: fmt.Sprintf("--ssh-option is for ssh, and %s is another program", name), Remedy: "give it arguments of its own with -launcher-args"}
	}
	for _, o := range j.SSHOptions {
		args = append(args, "-o", string(o))
	}
	return args, nil
}

func (d *dialer) close() {
	if d.client != nil {
		d.client.Close()
	}
}

// Dial starts the helper of a node.
func (d *dialer) Dial(ctx context.Context, node job.NodeDef) (io.ReadWriteCloser, error) {
	d.mu.Lock()
	d.nodes[node.Name] = node
	d.mu.Unlock()
	if node.Local && node.Helper != "" { // what runs here is the helper already
		if err := d.sameHere(node.Helper); err != nil {
			return nil, err
		}
	}
	switch {
	case d.guard != nil && !node.Local:
		return nil, errors.New("is not this machine, the only one of the job")
	case d.guard != nil:
		return newInside(request.HelperEnv(d.sys.Environ), d.guard), nil
	case node.Local:
		return d.child.Dial(ctx, node.Name)
	case d.fork:
		return nil, errors.New("is not this machine, and -launcher fork starts nowhere else")
	case d.command != nil:
		return d.command.Dial(ctx, node.Name)
	}
	return d.ssh.Dial(ctx, node.Name)
}

// route tells people how a node would be reached (DIAG-1). It contacts nobody. The host
// is named only where it is another than the node's name, so that equal routes are equal.
func (d *dialer) route(node job.NodeDef) string {
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

// sameHere sees that the program named for this machine is the one that runs.
func (d *dialer) sameHere(path string) error {
	self, err := reach.This()
	if err == nil {
		err = self.Same(path)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

var _ node.Dialer = (*dialer)(nil)

func (d *dialer) node(name string) job.NodeDef {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.nodes[name]
}

// helper is the path of our program on a host, if the host file names it.
func (d *dialer) helper(name string) string { return d.node(name).Helper }

// place tells a -launcher-exec template of a host.
func (d *dialer) place(name string) reach.Place {
	n := d.node(name)
	p := reach.Place{Host: n.Host, User: n.User, Me: d.me().Name, Port: n.Port, Index: strconv.Itoa(n.ID)}
	if n.Address != "" {
		p.Host = n.Address
	}
	return p
}

// resolve looks a host up in the user's configuration under the name the user wrote
// (SSH-1). What the host list says of it wins.
func (d *dialer) resolve(name string) (sshx.Target, error) {
	config, err := d.config()
	if err != nil {
		return sshx.Target{}, err
	}
	n := d.node(name)
	t, err := config.Resolve(n.Host, d.me())
	if err != nil {
		return t, err
	}
	if d.timeoutGiven {
		t.ConnectTimeout = 0 // the option wins over the configuration (CLI-12)
	}
	if n.Address != "" {
		t.HostName = n.Address
	}
	if n.User != "" {
		t.User = n.User
	}
	if n.Port > 0 {
		t.Port = n.Port
	}
	return t, nil
}

func (d *dialer) readConfig() (*sshx.Config, error) {
	me := d.me()
	config, err := sshx.ReadConfig(me.Home+"/.ssh/config", "/etc/ssh/ssh_config", me)
	if err != nil || len(d.options) == 0 {
		return config, err
	}
	var options []string
	for _, o := range d.options {
		options = append(options, string(o))
	}
	return config.With("--ssh-option", options)
}

// user is who connects. A static program cannot ask LDAP or sss, so the environment
// speaks first (see doc/design.md); without it root's home is known, as everywhere.
func (d *dialer) user() sshx.User {
	host, _ := os.Hostname()
	u := sshx.User{Name: d.sys.getenv("USER"), Home: d.sys.getenv("HOME"), UID: syscall.Getuid(), Host: host, Getenv: d.sys.getenv}
	u.Name = cmp.Or(u.Name, d.sys.getenv("LOGNAME"))
	if u.Name == "" || u.Home == "" {
		entry := passwdEntry(d.sys, u.UID)
		u.Name, u.Home = cmp.Or(u.Name, entry[0]), cmp.Or(u.Home, entry[1])
	}
	return u
}

// passwdEntry finds name and home of a user in /etc/passwd; empty if they are not
// there.
func passwdEntry(sys System, uid int) (entry [2]string) {
	f, err := sys.FS.Open("etc/passwd")
	if err != nil {
		return entry
	}
	defer f.Close()
	text, _ := io.ReadAll(f)
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) > 5 && fields[2] == strconv.Itoa(uid) {
			return [2]string{fields[0], fields[5]}
		}
	}
	return entry
}

// hasTerminal reports whether we have a controlling terminal.
func hasTerminal() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	tty.Close()
	return true
}

// asker reads a passphrase from the terminal; nil when there is none (SSH-2).
func asker() func(prompt string) ([]byte, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	tty.Close()
	return func(prompt string) ([]byte, error) {
		tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
		if err != nil {
			return nil, errors.New("no terminal")
		}
		defer tty.Close()
		fmt.Fprint(tty, prompt)
		defer fmt.Fprintln(tty)
		return term.ReadPassword(int(tty.Fd()))
	}
}
