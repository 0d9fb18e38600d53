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
	"remshell/userfile"
)

// This file implements --doctor: it diagnoses the hosts and prints a remedy for each problem (rule DIAG-5).

// doctorHosts returns the line for --doctor. If the words in the position of the program are hosts, they become the
// hosts of the line. If they are a program, doctorHosts changes nothing: users may add --doctor to the command line of
// a job that fails.
func doctorHosts(line option.Line) (option.Line, error) {
	if line.NamesProgram() {
		return line, nil
	}
	return programAsHosts(line)
}

// runDoctor prints the report of --doctor. The exit code is 0 if there is no problem, 1 if there are only
// warnings, and mpiexec's error code if something fails.
func (c *invocation) runDoctor(ctx context.Context) (int, error) {
	diagnoses, refusal, err := reserve.Diagnose(ctx, c.req, c.env.Env)
	if err != nil {
		return 0, err
	}
	report := doctor.Diagnose(diagnoses, c.examineLogin(ctx, diagnoses), c.localDefects(ctx)...).WithRefusal(refusal)
	report.Next = c.nextCommand(report.WorstLevel() == doctor.Failure)
	text := report.Text(widthOf(c.sys.Out))
	if c.line.Job.JSON != "" {
		text = report.JSON()
	}
	write := func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	if file := c.line.Job.JSON; file != "" && file != "-" {
		err = userfile.Write(file, write)
	} else {
		err = write(c.sys.Out)
	}
	if err == nil {
		flushPrinter(c.env.Err)
	}
	return report.ExitCode(c.ownErrorCode), err
}

// examineLogin diagnoses the user's login on the machine on which mpiexec runs. It returns nil if a helper
// has already diagnosed this machine.
func (c *invocation) examineLogin(ctx context.Context, diagnoses []job.HostDiagnosis) *job.NodeDiagnosis {
	if slices.ContainsFunc(diagnoses, func(d job.HostDiagnosis) bool { return d.Local }) {
		return nil
	}
	return examineLocalLogin(ctx, c.sys)
}

// localDefects returns problems of files on this machine: the cluster file, the accounting file and, if
// the built-in SSH client is used, the files of ssh.
func (c *invocation) localDefects(ctx context.Context) (defects []job.Defect) {
	if c.inputs.Cluster != nil {
		for _, w := range c.inputs.Cluster.Warnings {
			defects = append(defects, job.Defect{Code: "cluster-file", Text: w.Error(), Remedy: "correct the name of the user or group, or use the numeric ID"})
		}
		if site := c.inputs.Cluster; site.AccountingFile != "" {
			if err := checkAppendable(site.AccountingFile); err != nil {
				defects = append(defects, job.Defect{Code: "accounting", Text: fmt.Sprintf("%s: accounting_file: %v", site.File, err),
					Remedy: "make the file writable for all users, or correct its path; until then jobs are not recorded"})
			}
		}
	}
	d, isOurs := c.env.Dialer.(*hostDialer)
	if !isOurs || d.sshDialer == nil || !slices.ContainsFunc(c.req.Nodes, func(def job.NodeDef) bool { return !def.Local }) {
		return defects
	}
	for _, f := range sshx.FindFileProblems(ctx, sshUser(c.sys, ownAccount(c.sys))) {
		defects = append(defects, job.Defect{Code: "ssh-file", Text: f.Text, Remedy: f.Remedy})
	}
	return defects
}

// nextCommand returns the command line that the report of --doctor advises to run next.
func (c *invocation) nextCommand(failed bool) string {
	if c.sys.isMpijob() { // all its words are hosts
		options := withoutDoctor(c.args)
		if failed {
			return quoteCommand("mpijob doctor", options)
		}
		return quoteCommand("mpiexec --selftest", options)
	}
	line, err := option.Mpiexec(signalNumber).Parse(c.args, optionSources(c.sys))
	if err != nil { // cannot be: the same line was read before
		return ""
	}
	return nextCommandFor(c.args, line, failed)
}

// nextCommandFor returns the command line that the report of --doctor suggests next. args are the current arguments.
// If failed is true, the command line stays the same. Otherwise nextCommandFor removes --doctor, and adds --selftest
// if no program is named.
func nextCommandFor(args []string, line option.Line, failed bool) string {
	if failed {
		return quoteCommand("mpiexec", args)
	}
	first := line.Apps[0]
	options, rest := args, []string{}
	// The program and its arguments, or the hosts, are the last words, unless they come from a -configfile.
	if at := len(args) - 1 - len(first.Args); at >= 0 && args[at] == first.Program {
		options, rest = args[:at], args[at:]
	}
	options = withoutDoctor(options)
	if first.Program == "" || !line.NamesProgram() {
		options = append(options, "--selftest")
	}
	return quoteCommand("mpiexec", append(options, rest...))
}

// withoutDoctor returns args without --doctor and --json.
func withoutDoctor(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(word string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
		return strings.HasPrefix(word, "-") && (name == "doctor" || name == "json")
	})
}

// quoteCommand returns a command line with args quoted for a shell.
func quoteCommand(command string, args []string) string {
	line := command
	for _, word := range args {
		line += " " + option.ShellQuote(word)
	}
	return line
}
