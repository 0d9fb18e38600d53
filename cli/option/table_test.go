package option

import (
	"errors"
	"reflect"
	"strconv"
	"testing"
)

// smallTableOptions are the options of an app context in a front end with two options.
type smallTableOptions struct {
	Ranks int `name:"-n" also:"--pes" arg:"PES" topic:"All" help:"number of ranks"`
	Depth int `name:"-d" also:"--cpus-per-pe" arg:"D" topic:"All" help:"CPUs for each rank"`
}

// A front end is a table and a function that makes a Line. The same words can mean something else in it, and the Line
// is used like one of mpiexec.
func TestFrontEnd(t *testing.T) {
	table := newTable("little", "-d\n  As often as there is work.\n")
	table.topics = []string{"All"}
	table.addOptions(reflect.TypeFor[smallTableOptions](), PerApp)
	table.makeLine = func(_ *Table, apps []scannedApp, _ Sources) (line Line, err error) {
		var errs []error
		for i, s := range apps {
			if errs = append(errs, s.errs...); s.unparsable {
				continue
			}
			var values smallTableOptions
			setFields(s.given, &values)
			line.Apps = append(line.Apps, AppContext{Number: i + 1, AppOptions: AppOptions{N: values.Ranks}, InheritedOptions: InheritedOptions{TPP: strconv.Itoa(values.Depth)}, Program: s.program[0], Args: s.program[1:]})
		}
		return line, errors.Join(errs...)
	}
	ours, err := table.Parse([]string{"--pes=4", "-d", "2", "a", "-d", ":", "-n", "1", "-d", "8", "b"}, Sources{})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := Mpiexec(linuxSignals).Parse([]string{"-n", "4", "-tpp", "2", "a", "-d", ":", "-n", "1", "-tpp", "8", "b"}, Sources{})
	if err != nil {
		t.Fatal(err)
	}
	theirs.table = nil
	for i := range theirs.Apps {
		theirs.Apps[i].given = nil
	}
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("got %+v\nwant %+v", ours, theirs)
	}
	_, err = table.Parse([]string{"-d", "none", "-x", "a"}, Sources{})
	if want := "-d: \"none\" is not a number\nunknown option -x"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	text, err := table.Explain("cpus-per-pe")
	if want := "-d D   CPUs for each rank\n\nAs often as there is work.\n\nAlso written: --cpus-per-pe\nThe option applies only to its own app context.\nVariables: MPIEXEC_CPUS_PER_PE\n"; err != nil || text != want {
		t.Errorf("%q, %v\nwant %q", text, err, want)
	}
}
