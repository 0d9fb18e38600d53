package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"remshell/format"
	"remshell/trace"
	"remshell/usererr"
	"remshell/userfile"
)

// This file writes the trace of a run: --trace and --trace-svg.

// startTrace starts the trace of a run, if there is to be one. The caller passes the error of the run to ended, which
// writes the trace, also if the run failed early.
func (c *invocation) startTrace() (ended func(error), err error) {
	j := c.line.Job
	for _, f := range []struct{ option, name string }{{"--trace", j.TraceFile}, {"--trace-svg", j.TracePicture}} {
		if f.name == "" {
			continue
		}
		if err := checkWritable(f.name, true); err != nil {
			return nil, &usererr.Error{Text: fmt.Sprintf("%s: %v", f.option, err), Remedy: cmp.Or(usererr.Hint(err), "name a file that can be written")}
		}
	}
	if err := checkDistinctFiles(j.TraceFile, "--trace", j.TracePicture, "--trace-svg", j.ReportFile, "--report", j.SaveJob, "--save-job", j.JSON, "--json"); err != nil {
		return nil, err
	}
	c.requestStep = c.env.Trace.Begin(trace.Row{}, trace.Request)
	return func(err error) {
		c.requestStep.End(err)
		if j.TraceFile == "" && j.TracePicture == "" {
			return
		}
		t := c.env.Trace.Trace()
		t.Title = c.req.Command()
		c.writeTraceFile("--trace", j.TraceFile, t, func(w io.Writer, t trace.Trace) error {
			return trace.Chrome(w, t, format.EscapeJSON)
		})
		c.writeTraceFile("--trace-svg", j.TracePicture, t, trace.SVG)
	}, nil
}

// checkDistinctFiles returns an error if two options would write to the same file. words alternates between files and
// their options.
func checkDistinctFiles(words ...string) error {
	of := make(map[string]string)
	for pair := range slices.Chunk(words, 2) {
		name, option := pair[0], pair[1]
		if name == "" || name == "-" && option == "--json" {
			continue
		}
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue // nothing is replaced in a pipe or device
		}
		if target, err := filepath.EvalSymlinks(name); err == nil {
			name = target
		}
		name, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		if other := of[name]; other != "" {
			return &usererr.Error{Text: fmt.Sprintf("%s and %s would both write %s", other, option, pair[0]), Remedy: "give each a file of its own"}
		}
		of[name] = option
	}
	return nil
}

// writeTraceFile writes a trace to a file, and prints an error with a new printer, since the run's printer is closed
// by then.
func (c *invocation) writeTraceFile(option, name string, t trace.Trace, write func(io.Writer, trace.Trace) error) {
	if name == "" {
		return
	}
	if err := writeWholeFile(name, func(w io.Writer) error { return write(w, t) }); err != nil {
		c.sys.newMessagePrinter(c.sys.Err, c.line.Job).printError(fmt.Errorf("%s: %w", option, err))
	}
}

// checkWritable returns why a file could not be written later, or if replaced is set, why it could not be replaced. It
// is nil if that seems possible.
func checkWritable(name string, replaced bool) error {
	path, err := userfile.ResolveForWriting(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &os.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil // a pipe, a device
	case err != nil || replaced:
		path = filepath.Dir(path)
	}
	if err := unix.Access(path, unix.W_OK); err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	return nil
}

// writeWholeFile writes a file so that a reader sees it whole or not at all. A pipe or device is written directly.
func writeWholeFile(name string, write func(io.Writer) error) error {
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeFile(name, write)
	}
	return replaceFile(name, write)
}
