package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"remshell/cli/option"
	"remshell/doctor"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/sshx"
)

// This file answers --doctor: what is wrong with the hosts, and what to do about it
// (DIAG-5).

// doctorHosts takes the words behind --doctor for hosts, unless they are a program: --doctor can be added to a
// command line that fails.
func doctorHosts(line option.Line) (option.Line, error) {
	if line.NamesProgram() {
		return line, nil
	}
	return programAsHosts(line)
}

// runDoctor reports on the hosts. The exit code is 0 if all is fine, 1 if there are
// warnings, and that of our failures otherwise.
func (c *invocation) runDoctor(ctx context.Context) (int, error) {
	checkups, refused, err := reserve.Diagnose(ctx, c.req, c.env.Env)
	if err != nil {
		return 0, err
	}
	report := doctor.Diagnose(checkups, c.examineLogin(ctx, checkups), c.localDefects(ctx)...).WithRefusal(refused)
	report.Next = c.nextCommand(report.WorstLevel() == doctor.Failure)
	text := report.Text(widthOf(c.sys.Out))
	if c.line.Job.JSON != "" {
		text = report.JSON()
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	if file := c.line.Job.JSON; file != "" && file != "-" {
		err = writeFile(file, write)
	} else {
		err = write(c.sys.Out)
	}
	if err == nil {
		flushPrinter(c.env.Err)
	}
	return report.ExitCode(c.ownErrorCode), err
}

// examineLogin looks at the login of the machine from which jobs are launched. It is nil if a helper has looked at this machine.
func (c *invocation) examineLogin(ctx context.Context, checkups []job.HostDiagnosis) *job.NodeDiagnosis {
	if slices.ContainsFunc(checkups, func(one job.HostDiagnosis) bool { return one.Local }) {
		return nil
	}
	return examineLocalLogin(ctx, c.sys)
}

// localDefects lists what is wrong with files of this machine: the cluster file, the accounting file and, if our client reads them, the
// files of ssh.
func (c *invocation) localDefects(ctx context.Context) (defects []job.Defect) {
	if c.inputs.Cluster != nil {
		for _, w := range c.inputs.Cluster.Warnings {
			defects = append(defects, job.Defect{Code: "cluster-file", Text: w.Error(), Remedy: "correct the name, or write the number"})
		}
		if site := c.inputs.Cluster; site.AccountingFile != "" {
			if err := checkAppendable(site.AccountingFile); err != nil {
				defects = append(defects, job.Defect{Code: "accounting", Text: fmt.Sprintf("%s: accounting_file: %v", site.File, err),
					Remedy: "make it a file that all users may write to, or correct its name: jobs run without accounts"})
			}
		}
	}
	d, ours := c.env.Dialer.(*hostDialer)
	if !ours || d.sshDialer == nil || !slices.ContainsFunc(c.req.Nodes, func(def job.NodeDef) bool { return !def.Local }) {
		return defects
	}
	for _, f := range sshx.FindFileProblems(ctx, sshUser(c.sys, ownAccount(c.sys))) {
		defects = append(defects, job.Defect{Code: "ssh-file", Text: f.Text, Remedy: f.Remedy})
	}
	return defects
}

// nextCommand returns the command line to type after the report was read.
func (c *invocation) nextCommand(failed bool) string {
	line, err := option.Mpiexec(signalNumber).Parse(c.args, optionSources(c.sys))
	if err != nil { // cannot be: the same line was read before
		return ""
	}
	return nextCommandFor(c.args, line, failed)
}

// nextCommandFor returns the command line to type after the report on args was read. If something failed, it is the same again. Else it is
// the job without --doctor, or --selftest on the same hosts if no program is named.
func nextCommandFor(args []string, line option.Line, failed bool) string {
	if failed {
		return commandText(args)
	}
	first := line.Apps[0]
	options, rest := args, []string{}
	// The program with its arguments, or hosts, are the last words, unless a -configfile names them.
	if at := len(args) - 1 - len(first.Args); at >= 0 && args[at] == first.Program {
		options, rest = args[:at], args[at:]
	}
	options = withoutDoctor(options)
	if first.Program == "" || !line.NamesProgram() {
		options = append(options, "--selftest")
	}
	return commandText(append(options, rest...))
}

// withoutDoctor returns a command line without --doctor and --json.
func withoutDoctor(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(word string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		return strings.HasPrefix(word, "-") && (name == "doctor" || name == "json")
	})
}

// commandText returns a command line of mpiexec, quoted for a shell.
func commandText(args []string) string {
	line := "mpiexec"
	for _, word := range args {
		line += " " + option.ShellQuote(word)
	}
	return line
}
