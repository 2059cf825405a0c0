package main

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"os"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Snowshed: {{.Scenario}}</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}
pre{background:#f5f5f5;padding:1em;overflow:auto}svg{max-width:100%;height:auto}</style>
<h1>{{.Scenario}}</h1>
<p>{{.About}} There are {{.Processes}} processes, {{.Keys}} keys with a TTL of {{.TTL}}, and {{.Rate}} requests with a deadline of
{{.Deadline}}. The database runs {{.Workers}} statements at once, of {{.Service}} each. Redis: {{.Redis}}. Database: {{.Database}}.</p>
{{range .Plots}}<h2>{{.Title}}</h2>{{.SVG}}{{end}}
<h2>Figures</h2><pre>{{.Table}}</pre></html>
`))

type figure struct {
	Title string
	SVG   template.HTML
}

func writeReport(cfg config, w *world, runs []*result) error {
	var figs []figure
	for _, f := range []struct {
		title  string
		series func(*result) []float64
		log    bool
	}{
		{"Requests answered, % in each second", func(r *result) []float64 { return r.perSecondOK }, false},
		{"p99 latency in each second, ms (logarithmic)", func(r *result) []float64 { return r.perSecondP99 }, true},
		{"Answers that waited for a load, in each second", func(r *result) []float64 { return r.perSecondLoad }, false},
	} {
		svg, err := drawLines(runs, f.series, f.log)
		if err != nil {
			return fmt.Errorf("drawing the report: %w", err)
		}
		figs = append(figs, figure{f.title, template.HTML(svg)}) //nolint:gosec // drawn by our own plots
	}
	var table strings.Builder
	printTable(&table, runs)
	var b bytes.Buffer
	err := page.Execute(&b, map[string]any{
		"Scenario": cfg.scenario.name, "About": cfg.scenario.about, "Processes": w.Processes, "Keys": w.Keys, "TTL": w.TTL,
		"Rate": w.Rate, "Deadline": w.Deadline, "Workers": w.Workers, "Service": w.Service, "Redis": w.redis.Kind(), "Database": w.db.Kind(),
		"Plots": figs, "Table": table.String(),
	})
	if err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return os.WriteFile(cfg.report, b.Bytes(), 0o600)
}

var colors = []color.Color{
	color.RGBA{R: 200, G: 50, B: 50, A: 255}, color.RGBA{R: 30, G: 110, B: 180, A: 255}, color.RGBA{R: 60, G: 150, B: 90, A: 255},
}

// drawLines plots one line for each run over the seconds since the event.
func drawLines(runs []*result, series func(*result) []float64, log bool) (string, error) {
	p := plot.New()
	p.X.Label.Text = "seconds since it began"
	p.Legend.Top = true
	p.Add(plotter.NewGrid())
	if log {
		p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	for i, r := range runs {
		var xys plotter.XYs
		for second, y := range series(r) {
			if log {
				y = max(y, 0.01)
			}
			xys = append(xys, plotter.XY{X: float64(second) + 0.5, Y: y})
		}
		line, points, err := plotter.NewLinePoints(xys)
		if err != nil {
			return "", err
		}
		line.Color, line.Width = colors[i%len(colors)], vg.Points(2)
		points.Color, points.Shape = line.Color, draw.CircleGlyph{}
		p.Add(line, points)
		p.Legend.Add(r.Name, line)
	}
	c := vgsvg.New(20*vg.Centimeter, 8*vg.Centimeter)
	p.Draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return "", err
	}
	_, svg, _ := strings.Cut(b.String(), "<svg") // without the XML prolog, which has no place in HTML
	return "<svg" + svg, nil
}
