# Published runs: predicted over measured step time, and the ratio of the two.
# tdp writes variables.gp (summary, title[]) and scatter.dat, a block a source.

set encoding utf8
face = 'DejaVu Sans'
ink = '#1A202C'
soft = '#5A6472'
n = |title|
array color[12] = ['#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9', '#8C564B', '#7F7F7F', '#6A3D9A', '#B2DF8A', '#1A202C', '#E31A1C']
color_of(i) = color[(i - 1) % 12 + 1]
point_of(i) = int((i - 1) / 12) % 2 == 0 ? 7 : 9

set logscale xy
set format '10^{%T}'
set tics nomirror out scale 0.6 tc rgb soft
set border 3 lc rgb soft
set grid lt 1 lc rgb '#DDE1E6' lw 0.7 back

do for [format in 'svg png'] {
  if (format eq 'svg') {
    set terminal svg size 1300, 640 font face.',11' background '#FFFFFF' enhanced
  } else {
    set terminal pngcairo size 1950, 960 font face.',15' background '#FFFFFF' enhanced
  }
  set output name.'.'.format
  set multiplot
  set label 1 'Published runs, simulated' at screen 0.045, 0.965 font face.',15' tc rgb ink noenhanced
  set label 2 summary at screen 0.045, 0.925 tc rgb soft noenhanced

  set size 0.40, 0.86
  set origin 0.01, 0.02
  set lmargin 8
  set xlabel 'measured step (s)' tc rgb soft
  set ylabel 'predicted step (s)' tc rgb soft
  set xrange [0.1:1000]
  set yrange [0.1:1000]
  unset key
  plot x with lines lc rgb ink lw 1, 1.1 * x with lines lc rgb '#9AA5B1' dt 2, x / 1.1 with lines lc rgb '#9AA5B1' dt 2, \
    for [i = 1:n] 'scatter.dat' index i - 1 using 1:2 with points pt point_of(i) ps 0.5 lc rgb color_of(i)

  unset label 1
  unset label 2
  set size 0.60, 0.86
  set origin 0.40, 0.02
  set ylabel 'predicted / measured'
  unset logscale y
  set format y '%.1f'
  set yrange [0.3:1.7]
  set key outside right top Left reverse noenhanced tc rgb ink samplen 0.6 font face.',10'
  plot 1 with lines lc rgb ink lw 1 notitle, 1.1 with lines lc rgb '#9AA5B1' dt 2 notitle, 0.9 with lines lc rgb '#9AA5B1' dt 2 notitle, \
    for [i = 1:n] 'scatter.dat' index i - 1 using 1:($2 / $1) with points pt point_of(i) ps 0.6 lc rgb color_of(i) title title[i]
  unset multiplot
  set logscale y
  set format y '10^{%T}'
  set output
}
