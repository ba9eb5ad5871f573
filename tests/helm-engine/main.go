// SPDX-License-Identifier: Apache-2.0

// Renders a chart with the packages that Helm renders charts with: text/template of Go, and sprig. Debian has no package of Helm.
// Usage: main CHART RELEASE NAMESPACE VALUES. Debian: golang-go, golang-github-masterminds-sprig-dev, golang-gopkg-yaml.v3-dev.
package main

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type values = map[string]interface{}

func read(path string) values {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	found := values{}
	if err := yaml.Unmarshal(text, &found); err != nil {
		log.Fatal(path, ": ", err)
	}
	return found
}

// merge adds the values of a release to those of the chart.
func merge(into, from values) {
	for key, value := range from {
		old, isMap := into[key].(values)
		other, areMaps := value.(values)
		if isMap && areMaps {
			merge(old, other)
		} else {
			into[key] = value
		}
	}
}

func toYaml(value interface{}) (string, error) {
	text, err := yaml.Marshal(value)
	return strings.TrimSuffix(string(text), "\n"), err
}

func main() {
	chart, release, namespace := os.Args[1], os.Args[2], os.Args[3]
	about, used := read(filepath.Join(chart, "Chart.yaml")), read(filepath.Join(chart, "values.yaml"))
	merge(used, read(os.Args[4]))
	context := values{
		"Values":  used,
		"Release": values{"Name": release, "Namespace": namespace},
		"Chart":   values{"AppVersion": about["appVersion"]},
	}
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	files, err := filepath.Glob(filepath.Join(chart, "templates/*.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		parsed, err := template.New(file).Option("missingkey=error").Funcs(functions).Parse(string(text))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("---")
		if err := parsed.Execute(os.Stdout, context); err != nil {
			log.Fatal(err)
		}
	}
}
