package ranktrace

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/format"
	"remshell/trace"
	"remshell/usererr"
	"remshell/userfile"
)

// Options are the command-line options of this feature: --trace and --trace-svg.
type Options struct {
	TraceFile    string `name:"--trace" onedash:"writes timings" after:"report-every report" resume:"allowed" writes:"yes" needs:"run" arg:"FILE" topic:"" under:"Reports and queries" help:"write a timeline of the job to FILE, for Perfetto"`
	TracePicture string `name:"--trace-svg" after:"trace" resume:"allowed" writes:"yes" needs:"run" arg:"FILE" topic:"" under:"Reports and queries" help:"write a timeline of the job's start as an SVG picture"`
}

const texts = `
--trace
  mpiexec writes FILE in the Chrome trace format, which Perfetto and chrome://tracing can open. The timeline has a row
  for mpiexec, for each host and for each rank. mpiexec writes FILE when the job has ended, even after a failure. The
  guide explains how to read the timeline.

--trace-svg
  The picture shows mpiexec and each host as a row, and each step of the start as a bar in its row. Any browser can show
  FILE. If there are more than 40 hosts, the picture shows only the hosts that failed or took longest to start.
`

func init() {
	option.Register[Options](texts)
	setup.Register(begin)
}

// A traceFile is a file to which a trace is written, in one format.
type traceFile struct {
	option, name string
	write        func(io.Writer, trace.Trace) error
}

// begin starts to record the steps of a run, if --trace or --trace-svg is given. The trace is written even if
// the run fails.
func begin(r *setup.Run) error {
	o := option.ValuesOf[Options](r.Line)
	files := []traceFile{{"--trace", o.TraceFile, writeEvents}, {"--trace-svg", o.TracePicture, trace.SVG}}
	files = slices.DeleteFunc(files, func(f traceFile) bool { return f.name == "" })
	for _, f := range files {
		if err := userfile.CheckWritable(f.name, true); err != nil {
			return &usererr.Error{Text: fmt.Sprintf("%s: %v", f.option, err), Remedy: cmp.Or(usererr.Hint(err), "choose a file that you can write")}
		}
	}
	for _, f := range files {
		if r.Env.Trace == nil {
			r.Env.Trace = trace.New(time.Now)
		}
		r.OnEnd(func(error) error { return f.writeTrace(r) })
	}
	return nil
}

// writeTrace writes the trace of a run that has ended.
func (f traceFile) writeTrace(r *setup.Run) error {
	t := r.Env.Trace.Trace()
	t.Title = r.Request.Command()
	if err := userfile.WriteWhole(f.name, func(w io.Writer) error { return f.write(w, t) }); err != nil {
		return fmt.Errorf("%s: %w", f.option, err)
	}
	return nil
}

// writeEvents writes a trace as Chrome trace events.
func writeEvents(w io.Writer, t trace.Trace) error { return trace.Chrome(w, t, format.EscapeJSON) }
