package cli

import (
	"context"
	"io"

	"remshell/cli/option"
	"remshell/doctor"
	"remshell/job"
	"remshell/launch/reserve"
)

// This file answers --doctor: what is wrong with the hosts, and what to do about it
// (DIAG-5).

// hostsToCheck finds out whom to examine. Where hosts are named by an option, the words are a
// program as in any command line, so that --doctor can be added to one that fails.
func hostsToCheck(line option.Line) (option.Line, error) {
	if len(line.Sections) > 1 || line.NamesHosts() {
		return line, nil
	}
	return hostsForProgram(line)
}

// doctor reports on the hosts. The exit code is 0 if all is fine, 1 if there are
// warnings, and that of our failures otherwise.
func (c *call) doctor(ctx context.Context) (int, error) {
	checkups, err := reserve.Examine(ctx, c.req, c.env.Env, needs(c.req, c.sys))
	if err != nil {
		return 0, err
	}
	report := doctor.Judge(checkups)
	text := report.Text()
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
		flush(c.env.Err)
	}
	return report.Code(c.ours), err
}

// needs is what the job of the first section would look for on the hosts.
func needs(req job.Request, sys System) reserve.Wanted {
	if len(req.Apps) == 0 || len(req.Apps[0].Argv) == 0 {
		return reserve.Wanted{}
	}
	app := req.Apps[0]
	return reserve.Wanted{Dir: app.Dir, Program: app.Argv[0], Path: sys.getenv("PATH"), Libraries: sys.getenv("LD_LIBRARY_PATH")}
}
