// The curves of a training, one a metric and seed, which one can zoom.
"use strict";

const COLOURS = { "test accuracy": "#0173b2", "training loss": "#de8f05", "test loss": "#029e73" };

for (const place of document.querySelectorAll("[data-curves]")) {
  const curves = JSON.parse(place.dataset.curves);
  const style = getComputedStyle(document.body);
  const axis = { gridcolor: style.getPropertyValue("--line"), zeroline: false };
  const layout = {
    font: { color: style.color },
    paper_bgcolor: "rgba(0, 0, 0, 0)",
    plot_bgcolor: "rgba(0, 0, 0, 0)",
    margin: { t: 20, r: 60 },
    xaxis: { ...axis, title: { text: "round" } },
    yaxis: { ...axis, title: { text: "test accuracy (%)" }, rangemode: "tozero" },
    yaxis2: {
      title: { text: "loss" },
      rangemode: "tozero",
      overlaying: "y",
      side: "right",
      showgrid: false,
      tickmode: "auto", // not at the ticks of the accuracy, where the loss is 0.457, say
    },
    modebar: { bgcolor: "rgba(0, 0, 0, 0)" },
    legend: { orientation: "h", y: 1, yanchor: "bottom" },
  };
  const named = new Set();
  const traces = curves.map(({ name, seed, y, ...rounds }) => {
    const accuracy = name === "test accuracy";
    const first = !named.has(name);
    named.add(name);
    return {
      name, ...rounds,
      legendgroup: name,
      showlegend: first,
      hovertemplate: `%{y:.4g}, round %{x}, seed ${seed}`,
      y: accuracy ? y.map((value) => 100 * value) : y,
      yaxis: accuracy ? "y" : "y2",
      line: { color: COLOURS[name] },
      mode: y.length < 60 ? "lines+markers" : "lines",
    };
  });
  Plotly.newPlot(place, traces, layout, { responsive: true, displaylogo: false });
}
