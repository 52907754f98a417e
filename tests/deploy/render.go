// Renders a Helm chart without helm: Go's text/template with Sprig, and the few functions that Helm adds.
//
//	render CHART <cases.json >texts.json
//
// Cases are {"name", "release", "chart", "values"}, texts {"name", "text", "error"}.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type chartCase struct {
	Name, Release string
	Chart, Values map[string]interface{}
}

type chartText struct {
	Name  string `json:"name"`
	Text  string `json:"text"`
	Error string `json:"error"`
}

func toYaml(value interface{}) (string, error) {
	var text bytes.Buffer
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	err := encoder.Encode(value)
	return strings.TrimSuffix(text.String(), "\n"), err
}

func parse(folder string) (*template.Template, []string, error) {
	root := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := root.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	functions["toYaml"] = toYaml
	functions["lookup"] = func(...string) map[string]interface{} { return map[string]interface{}{} }
	functions["fail"] = func(message string) (string, error) { return "", errors.New(message) }
	root.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(folder, "templates", "*"))
	sort.Strings(files)
	for _, file := range files {
		text, problem := os.ReadFile(file)
		if problem == nil {
			_, problem = root.New(filepath.Base(file)).Parse(string(text))
		}
		if problem != nil {
			return nil, nil, problem
		}
	}
	return root, files, err
}

func render(root *template.Template, files []string, c chartCase) chartText {
	data := map[string]interface{}{"Values": c.Values, "Chart": c.Chart,
		"Release": map[string]interface{}{"Name": c.Release, "Namespace": "default", "Service": "Helm"}}
	out := chartText{Name: c.Name}
	for _, file := range files {
		var text bytes.Buffer
		name := filepath.Base(file)
		if strings.HasPrefix(name, "_") {
			continue
		}
		if err := root.ExecuteTemplate(&text, name, data); err != nil {
			out.Error = err.Error()
			return out
		}
		if name != "NOTES.txt" && strings.TrimSpace(text.String()) != "" {
			out.Text += "---\n" + strings.TrimSpace(text.String()) + "\n"
		}
	}
	return out
}

func main() {
	var cases []chartCase
	root, files, err := parse(os.Args[1])
	if err == nil {
		err = json.NewDecoder(os.Stdin).Decode(&cases)
	}
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	texts := []chartText{}
	for _, c := range cases {
		texts = append(texts, render(root, files, c))
	}
	json.NewEncoder(os.Stdout).Encode(texts)
}
