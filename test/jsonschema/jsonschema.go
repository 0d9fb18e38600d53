/*
Package jsonschema checks the JSON that mpiexec writes against the schemas in doc/json. A key that a schema does
not have is an error, so a new key needs a line there.
*/
package jsonschema

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"remshell/tools/testbed"
)

// repo is the root of the repository, found before a test changes its working directory.
var repo, repoErr = testbed.Repo()

// Check returns an error unless every line of data is a JSON value that the schema with a name, such as "plan", allows.
// A text of several lines may also be a single value. It returns an error if data has no value.
func Check(name string, data []byte) error {
	if repoErr != nil {
		return repoErr
	}
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(repo, "doc/json", name+".schema.json"))
	if err != nil {
		return err
	}
	if value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data)); err == nil {
		return schema.Validate(value)
	}
	for line := range bytes.Lines(data) {
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

// starts are the first bytes of each output of mpiexec that has a schema, in the order in which they are tried.
var starts = []struct{ start, schema string }{
	{`{"v":1,`, "events"},
	{`{"version":1,"jobs":`, "jobs"},
	{`{"version":1,"verdict":`, "doctor"},
	{"{\n  \"version\": 1,\n  \"job\":", "report"},
	{"{\n  \"version\": 1,\n", "plan"},
}

// CheckOutput is Check for the standard output of mpiexec. It returns nil for all that does not begin as JSON of mpiexec.
func CheckOutput(data []byte) error {
	for _, s := range starts {
		if bytes.HasPrefix(data, []byte(s.start)) {
			return Check(s.schema, data)
		}
	}
	return nil
}
